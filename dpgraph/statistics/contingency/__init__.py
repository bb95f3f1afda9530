"""Counting contingency tables of encoded rows."""
