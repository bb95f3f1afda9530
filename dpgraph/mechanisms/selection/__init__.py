"""Mechanisms that choose a public candidate by its score."""
