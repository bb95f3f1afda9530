"""The durable ledger behind ``Budget.open``: append-only rows, each with a digest of the one before it.

Modules in the order data flows: ``row`` (one entry and its digest), ``store`` (the entries of a data set in a database,
in the dialects ``sqlite`` and ``postgres``), ``book`` (entries, allowances and checks for people) and
``account`` (opening, and charges of a budget).
"""
