"""Posterior of a linear regression from noisy sums of products."""
