"""Choosing a graph from what was released: pairs, the public joint that fits them, families read off it."""
