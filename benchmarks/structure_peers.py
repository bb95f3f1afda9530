"""One peer's synthetic rows, for benchmarks/structure.py: runs in an interpreter where the peer is installed.

    PEER_PYTHON benchmarks/structure_peers.py mst ROWS.npy SIZES.json OUT.npy --epsilon 1 --delta 1e-6 --seed 1

The peers are those of dpmm (``pip install dpmm``, which pins numpy, pandas and opendp, so in an environment of its
own): MST, AIM, and PrivBayes of cliques of two, with their own settings but for steps of the fit; and those of
smartnoise-synth on private-pgm's ``mbi`` (``pip install "mbi<2" disjoint-set smartnoise-sql Faker`` and ``pip install
--no-deps smartnoise-synth``): smartnoise-mst and smartnoise-aim, as they are, which read the levels of each variable
and the number of rows from the rows. Rows are codes, shape (rows, variables); sizes the levels of each variable.
Written: as many synthetic rows. Printed: processor seconds.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

SMARTNOISE = ("smartnoise-mst", "smartnoise-aim")


def main() -> None:
    """Fits one peer, and writes its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=("mst", "aim", "privbayes", *SMARTNOISE))
    for name in ("rows", "sizes", "out"):
        parser.add_argument(name)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, default=1000)
    asked = parser.parse_args()
    rows = np.load(asked.rows)
    started = time.process_time()
    drawn = smartnoise(asked, rows) if asked.peer in SMARTNOISE else dpmm(asked, rows)
    np.save(asked.out, drawn)
    print(time.process_time() - started)


def dpmm(asked: argparse.Namespace, rows: np.ndarray) -> np.ndarray:
    """Synthetic rows of a peer of dpmm."""
    import pandas as pd

    if asked.peer == "mst":
        from dpmm.models.mst import MSTGM as Model
    elif asked.peer == "aim":
        from dpmm.models.aim import AIMGM as Model
    else:
        from dpmm.models.priv_bayes import PrivBayesGM as Model
    with open(asked.sizes) as file:
        sizes = json.load(file)
    names = [f"v{i}" for i in range(rows.shape[1])]
    model = Model(epsilon=asked.epsilon, delta=asked.delta, n_iters=asked.steps, n_jobs=1)
    model.set_random_state(np.random.RandomState(asked.seed))
    model.set_domain(dict(zip(names, sizes)))  # noqa: B905  # the peer's interpreter may be an older one
    model.fit(pd.DataFrame(rows, columns=names))
    return model.generate(n_records=len(rows))[names].to_numpy().astype(np.int64)


def smartnoise(asked: argparse.Namespace, rows: np.ndarray) -> np.ndarray:
    """Synthetic rows of a peer of smartnoise-synth; its noise takes no seed, its choices do.

    Rows are drawn from its model. The default of mbi 1.1.0, to round, gives the first rows of a configuration the first
    levels of every child, so that children of one parent depend on each other where the model has them independent.
    """
    from functools import partialmethod

    import pandas as pd
    from mbi import MarkovRandomField
    from snsynth import Synthesizer

    MarkovRandomField.synthetic_data = partialmethod(MarkovRandomField.synthetic_data, method="sample")
    names = [f"v{i}" for i in range(rows.shape[1])]
    np.random.seed(asked.seed)  # noqa: NPY002  # the state that its choices draw from
    model = Synthesizer.create(asked.peer.split("-")[1], epsilon=asked.epsilon, delta=asked.delta)
    frame = pd.DataFrame(rows, columns=names)
    model.fit(frame, categorical_columns=names)
    return np.asarray(model.sample(len(rows)))[:, : len(names)].astype(np.int64)


if __name__ == "__main__":
    main()
