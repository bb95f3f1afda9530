"""Mechanisms that add integer noise to integer sums."""
