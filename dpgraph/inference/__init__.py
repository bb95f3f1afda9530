"""Inference from released values: posteriors and what follows from them. Imports public values only."""
