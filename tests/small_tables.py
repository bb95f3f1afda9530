"""Small tables that tests of several rooms learn from."""

import numpy as np
import pandas as pd

import dpgraph as dg

#: The variables of ``labelled``.
LABELLED = dg.Domain.of({"a": [1, 2, 3], "c": [1, 2, 3], "y": [1, 2]})


def chain(rows=1000, variables=4, seed=0):
    """Variables of two levels, each the one before it with three in ten flipped, and their domain."""
    rng = np.random.default_rng(seed)
    found = [rng.integers(0, 2, rows)]
    for _ in range(variables - 1):
        found.append((found[-1] + (rng.random(rows) < 0.3)) % 2)
    return pd.DataFrame(dict(zip("abcdefg", found, strict=False))), dg.Domain.of(
        {name: [0, 1] for name in "abcdefg"[:variables]}
    )


def labelled(rows=300, seed=0):
    """A label ``y``, a feature ``a`` that is the label nine times of ten, and one that tells nothing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(1, 3, rows)
    return pd.DataFrame({"a": np.where(rng.random(rows) < 0.9, y, 3), "c": rng.integers(1, 4, rows), "y": y})
