"""Readers of files fed with mutated files: each returns a value that is sound or raises one of the package's errors."""
