"""The likelihood of a release, by the definition."""

import numpy as np

from dpgraph.inference.network.evidence import contingency_table


def of_table(table, counts):
    """ln of the noise law of a measured table at (values - statistics), up to a constant."""
    return float(table.noise.log_density((table.values - table.statistics(counts)).astype(np.float64)).sum())


def log_likelihood(given, records):
    """ln of the probability of the release given rows, up to a constant; a column of codes for each variable."""
    return sum(of_table(t, contingency_table(records, t.variables, t.shape)) for t in given.tables)
