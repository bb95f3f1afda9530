"""Choice of a graph from a release: pairs, the public joint that fits them, families read off it."""
