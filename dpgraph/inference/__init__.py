"""Inference from released values: posteriors, and answers made of them. Imports public values only."""
