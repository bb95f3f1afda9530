"""Posteriors of a network's conditional probability tables from noisy counts."""
