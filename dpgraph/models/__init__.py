"""Models built from released values alone."""
