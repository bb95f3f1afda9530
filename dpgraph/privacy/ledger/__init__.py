"""The durable ledger behind ``Budget.open``: append-only rows, each with a digest of the one before it.

Modules in the order data flows: ``row`` (one row, what it lays down, and its digest), ``store`` (transactions in a
database, in the dialects ``sqlite`` and ``postgres``), ``chain`` (the rows of one data set), ``checking`` and ``book``
(rows, allowances and checks for people), ``account`` (charges of a budget), and ``opening``.
"""
