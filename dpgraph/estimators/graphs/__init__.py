"""Learning a network from rows: each method that spends in a file of its own, found by its name in ``methods``."""
