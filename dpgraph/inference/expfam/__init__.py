"""Posteriors of exponential families from noisy sums."""
