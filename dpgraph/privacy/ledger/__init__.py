"""The durable ledger behind ``Budget.open``: append-only rows, each with a digest of the one before it.

Modules in the order data flows: ``terms`` (what rows lay down), ``row`` (one row and its digest), ``store`` (what a
database must do), ``sqlite`` and ``postgres`` (the two that do), ``chain`` (the rows of one data set), ``checking`` and
``book`` (rows, allowances and checks for people), ``account`` (what a budget charges), and ``opening``.
"""
