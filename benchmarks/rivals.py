"""Synthetic rows of learned networks beside those of other libraries: errors, processor seconds and memory.

    python benchmarks/rivals.py --python PEER_PYTHON [--sets titanic,asia] [--epsilons 0.1,1,10] [--seeds 2] [--first 1]
        [--ways dpgraph,independent,smartnoise-mst,smartnoise-aim] [--delta 1e-6] [--results rivals.jsonl]

Sets, errors, ``independent`` and ``dpgraph`` (``dg.learn_network`` with its defaults) are benchmarks/structure.py's;
``again`` is rows drawn again from the rows, without privacy. The peers need an environment of their own: those of
smartnoise-synth on private-pgm's ``mbi`` (``pip install "mbi<2" disjoint-set smartnoise-sql Faker`` and ``pip install
--no-deps smartnoise-synth``), as they are, which read the levels of each variable and the number of rows from the rows;
and those of dpmm (``pip install dpmm``): MST, AIM, and PrivBayes of cliques of two, with their own settings.

Each run is a process of its own, whose processor seconds and peak memory are reported, imports included. One that takes
more than ten minutes of the processor is stopped; after one that took five, or failed, no other seed is run. Runs that
the file of results holds are not repeated.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

LIMIT = 600  # processor seconds of a run
CELL = ["set", "epsilon"]


def ours(way: str, rows: np.ndarray, sizes: list[int], epsilon: str, delta: str, seed: int) -> np.ndarray:
    """Rows of a learned network, or of independent columns."""
    import structure

    import dpgraph as dg

    domain = dg.Domain.of({f"v{i}": list(range(size)) for i, size in enumerate(sizes)})
    frame = pd.DataFrame(rows, columns=list(domain.names))
    run = {"dpgraph": structure.learned, "independent": structure.independent}[way]
    model, _ = run(frame, domain, epsilon, delta, seed)
    return dg.sample_rows(model, len(rows), np.random.default_rng(seed))[list(domain.names)].to_numpy()


def again(_way: str, rows: np.ndarray, _sizes: list[int], _epsilon: str, _delta: str, seed: int) -> np.ndarray:
    """Rows drawn again: what a model without any error would have."""
    return rows[np.random.default_rng(seed).integers(len(rows), size=len(rows))]


def dpmm(way: str, rows: np.ndarray, sizes: list[int], epsilon: str, delta: str, seed: int) -> np.ndarray:
    """Rows of a peer of dpmm."""
    if way == "dpmm-mst":
        from dpmm.models.mst import MSTGM as Model
    elif way == "dpmm-aim":
        from dpmm.models.aim import AIMGM as Model
    else:
        from dpmm.models.priv_bayes import PrivBayesGM as Model
    names = [f"v{i}" for i in range(len(sizes))]
    model = Model(epsilon=float(epsilon), delta=float(delta), n_iters=1000, n_jobs=1)
    model.set_random_state(np.random.RandomState(seed))
    model.set_domain(dict(zip(names, sizes)))  # noqa: B905  # the peer's interpreter may be an older one
    model.fit(pd.DataFrame(rows, columns=names))
    return model.generate(n_records=len(rows))[names].to_numpy()


def smartnoise(way: str, rows: np.ndarray, sizes: list[int], epsilon: str, delta: str, seed: int) -> np.ndarray:
    """Rows of a peer of smartnoise-synth; its noise takes no seed, its choices do.

    Rows are drawn from its model. The default of mbi 1.1.0, to round, gives the first rows of a configuration the first
    levels of every child, so that children of one parent depend on each other where the model has them independent.
    """
    from functools import partialmethod

    from mbi import MarkovRandomField
    from snsynth import Synthesizer

    MarkovRandomField.synthetic_data = partialmethod(MarkovRandomField.synthetic_data, method="sample")
    names = [f"v{i}" for i in range(len(sizes))]
    np.random.seed(seed)  # noqa: NPY002  # the state that its choices draw from
    model = Synthesizer.create(way.split("-")[1], epsilon=float(epsilon), delta=float(delta))
    model.fit(pd.DataFrame(rows, columns=names), categorical_columns=names)
    return np.asarray(model.sample(len(rows)))[:, : len(names)]


WAYS = {
    **dict.fromkeys(("dpgraph", "independent"), ours),
    "again": again,
    **dict.fromkeys(("smartnoise-mst", "smartnoise-aim"), smartnoise),
    **dict.fromkeys(("dpmm-mst", "dpmm-aim", "dpmm-privbayes"), dpmm),
}


def child(way: str, folder: str, *settings: str) -> None:
    """One run, in a process of its own: writes its rows, and prints its seconds and megabytes."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    rows, sizes = np.load(f"{folder}/rows.npy"), json.loads(Path(folder, "sizes.json").read_text())
    epsilon, delta, seed = settings
    np.save(f"{folder}/drawn.npy", WAYS[way](way, rows, sizes, epsilon, delta, int(seed)).astype(np.int64))
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    print(json.dumps({"seconds": time.process_time(), "memory": int(peak[1]) / 1024 if peak else None}))


def cells(asked: argparse.Namespace, known: pd.DataFrame) -> None:
    """Runs what is not known, and appends it to the file of results."""
    import structure

    import dpgraph as dg

    for name in asked.sets.split(","):
        rows, domain, _ = structure.SETS[name]()
        sizes = [domain.sizes[one] for one in domain.names]
        codes = dg.statistics.encode(rows, domain).columns
        coded = pd.DataFrame({f"v{i}": codes[one].astype(np.int64) for i, one in enumerate(domain.names)})
        compared = structure.Compared(coded, dg.Domain.of({f"v{i}": list(range(k)) for i, k in enumerate(sizes)}))
        for way in asked.ways.split(","):
            python = sys.executable if WAYS[way] in (ours, again) else asked.python
            for epsilon in asked.epsilons.split(",") if python else ():
                for seed in range(asked.first, asked.first + asked.seeds):
                    cell = {
                        "set": name,
                        "epsilon": float(epsilon),
                        "delta": float(asked.delta),
                        "way": way,
                        "seed": seed,
                    }
                    found = known[(known[list(cell)] == list(cell.values())).all(axis=1)].to_dict("records")
                    if not found:
                        found = [cell | run(compared, coded, sizes, [way, python, epsilon, asked.delta, str(seed)])]
                        with open(asked.results, "a") as file:
                            file.write(json.dumps(found[0]) + "\n")
                    if not found[0]["seconds"] < LIMIT / 2:
                        break


def run(compared, coded: pd.DataFrame, sizes: list[int], settings: list[str]) -> dict[str, float]:
    """The errors, seconds and megabytes of one run; NaN where it failed, and seconds of the limit where stopped."""
    way, python, *others = settings
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/rows.npy", coded.to_numpy())
        Path(folder, "sizes.json").write_text(json.dumps(sizes))
        done = subprocess.run([python, __file__, "--run", way, folder, *others], capture_output=True, text=True)
        if done.returncode:
            print(f"{settings}: {done.returncode} {done.stderr[-500:]}", file=sys.stderr)
            nan = float("nan")
            seconds = LIMIT if done.returncode == -signal.SIGXCPU else nan
            return {"pairs": nan, "triples": nan, "seconds": seconds, "memory": nan}
        pairs, triples = compared.distance(pd.DataFrame(np.load(f"{folder}/drawn.npy"), columns=list(coded)))
    return {"pairs": pairs, "triples": triples, **json.loads(done.stdout.splitlines()[-1])}


def main() -> None:
    """Prints a row for each set, epsilon and way."""
    if sys.argv[1:2] == ["--run"]:
        return child(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="titanic,asia,votes,child,mushroom,adult")
    parser.add_argument("--epsilons", default="0.1,1,10")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--ways", default="dpgraph,independent,again,smartnoise-mst,smartnoise-aim")
    parser.add_argument("--delta", default="1e-6")
    parser.add_argument("--python", default="", help="the interpreter of the peers; without it they are left out")
    parser.add_argument("--results", default="rivals.jsonl")
    asked = parser.parse_args()
    cells(asked, read(asked.results))
    table = read(asked.results)
    groups = table[table["delta"] == float(asked.delta)].groupby([*CELL, "way"])
    shown = groups["pairs"].agg(seeds="count", pairs="mean", sd="std")
    shown[["triples", "seconds", "MB"]] = groups[["triples", "seconds", "memory"]].mean()
    shown["sd of triples"] = groups["triples"].std()
    best = shown.drop(index="again", level="way", errors="ignore").groupby(CELL)[["pairs", "triples"]].transform("min")
    shown[["pairs / best", "triples / best"]] = shown[["pairs", "triples"]] / best
    print(f"add-remove, delta {asked.delta}; a way of no seeds was stopped, or failed where it has no seconds")
    print(shown.round(4).to_string())


def read(path: str) -> pd.DataFrame:
    """The results so far."""
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    columns = [*CELL, "delta", "way", "seed", "pairs", "triples", "seconds", "memory"]
    return pd.DataFrame([json.loads(line) for line in lines], columns=columns)


if __name__ == "__main__":
    main()
