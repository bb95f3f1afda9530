"""The durable ledger behind ``Budget.open``: append-only rows, each with a digest of the one before it.

``store`` has the entries of a data set in a database, in the dialects ``sqlite`` and ``postgres``, ``account`` the
opening and the charges of a budget, and the ledger for people.
"""
