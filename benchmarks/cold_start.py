"""The first call on a machine: each job in a new process, numba's cache empty, then again with it filled.

    python benchmarks/cold_start.py [--only regression] [--parts]

Processor seconds of the job, imports included, and how many of them numba compiled; ``--parts`` has a line for each
function that numba compiled for itself, the dearest first. Rows are made up, and the same in every run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]


def naive_bayes(epsilon: float) -> Callable[[], Any]:
    """8000 rows, eight features of four levels."""

    def run() -> None:
        import numpy as np
        import pandas as pd

        import dpgraph as dg

        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, 8000)
        levels = [np.where(rng.random(8000) < 0.6, (y + k) % 4, rng.integers(0, 4, 8000)) for k in range(8)]
        rows = pd.DataFrame({f"x{k}": column for k, column in enumerate(levels)})
        domain = dg.Domain.of({**{name: list(range(4)) for name in rows}, "y": [0, 1]})
        dg.PrivateNaiveBayes(domain, target="y", epsilon=epsilon, random_state=0).fit(rows, y)

    return run


def survey() -> Any:
    """Noisy counts of the README's survey, 2000 rows."""
    import numpy as np
    import pandas as pd

    import dpgraph as dg

    rng = np.random.default_rng(0)
    columns = {"sex": ["Female", "Male"], "age": dg.Bins([17, 25, 35, 50, 65, 90]), "work": ["a", "b", "c"]}
    network = dg.Network.of(dg.Domain.of(columns), {"age": ["sex"], "work": ["sex", "age"]})
    sex, age, work = rng.choice(["Female", "Male"], 2000), rng.integers(17, 90, 2000), rng.choice(list("abc"), 2000)
    rows = pd.DataFrame({"sex": sex, "age": age, "work": work})
    return dg.release(dg.count(rows, network), dg.LaplaceMechanism(1), budget=dg.Budget(1))


def posterior(**settings: Any) -> Callable[[], Any]:
    """The posterior of the survey."""

    def run() -> None:
        import dpgraph as dg

        dg.posterior(survey(), seed=0, **settings)

    return run


def hmm(**settings: Any) -> Callable[[], Any]:
    """3 states, 6000 entries in 30 sequences of 24 steps."""

    def run() -> None:
        import numpy as np
        import pandas as pd

        import dpgraph as dg

        rng = np.random.default_rng(0)
        levels: dict[str, Any] = {"region": 30, "month": 24, "kind": 4, "how": 3}
        log = pd.DataFrame({name: rng.integers(0, many, 6000) for name, many in levels.items()})
        domain = dg.Domain.of({name: list(range(many)) for name, many in levels.items()})
        dg.PrivateHMM(3, domain, epsilon=1, random_state=0, **settings).fit(log)

    return run


def regression() -> None:
    """4000 rows of four numbers."""
    import numpy as np
    import pandas as pd

    import dpgraph as dg

    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(4000, 4)), columns=list("abcd"))
    y = rows.sum(axis=1) + rng.normal(size=4000)
    dg.PrivateLinearRegression(dict.fromkeys("abcd", (-4, 4)), (-8, 8), epsilon=1, random_state=0).fit(rows, y)


def demo() -> None:
    """``make demo`` once it is set up."""
    subprocess.run([sys.executable, ROOT / "examples" / "demo.py"], stdout=subprocess.DEVNULL, check=True)


JOBS: dict[str, Callable[[], Any]] = {
    "naive Bayes, epsilon 1": naive_bayes(1),
    "naive Bayes, epsilon .05": naive_bayes(0.05),
    "release": survey,
    "posterior": posterior(),
    "posterior, normal": posterior(method="normal"),
    "regression": regression,
    "HMM": hmm(),
    "HMM, effects": hmm(sequence_effects=True),
    "HMM, plug-in": hmm(inference="plug-in"),
    "demo": demo,
}


def job(name: str) -> None:
    """Runs a job in this process; its processor seconds go to stdout, then those that each function took to compile."""
    warnings.simplefilter("ignore")
    start, seconds, compiled = time.process_time(), Counter[str](), Counter[str]()

    def listen() -> None:
        from numba.core import event

        class Listener(event.Listener):
            def on_start(self, event: event.Event) -> None:
                own.__dict__.setdefault("stack", []).append([time.thread_time(), 0.0])

            def on_end(self, event: event.Event) -> None:
                began, inner = own.stack.pop()
                whole = time.thread_time() - began
                assert event.data is not None
                seconds[event.data["dispatcher"].__name__] += whole - inner
                compiled[event.data["dispatcher"].__name__] += 1
                if own.stack:
                    own.stack[-1][1] += whole

        own = threading.local()
        event.register("numba:compile", Listener())

    listen()
    JOBS[name]()
    whole, children = time.process_time() - start, os.times()
    print(whole + children.children_user + children.children_system)
    for function, took in seconds.most_common():
        print(took, compiled[function], function)


def measured(name: str, cache: str) -> tuple[float, float, list[str]]:
    """Processor seconds of a job in a new process, seconds of the clock, and the functions that it compiled."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, "--job", name],
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    clock, (spent, *parts) = time.perf_counter() - start, done.stdout.splitlines()
    return float(spent), clock, parts


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(JOBS)))
@click.option("--parts", is_flag=True, help="A line for each function that was compiled.")
@click.option("--job", "one", hidden=True)
def main(only: tuple[str, ...], parts: bool, one: str | None) -> None:
    """Prints a line for each job."""
    if one:
        job(one)
        return
    click.echo("| job | cold | of these compiling | functions | by the clock | warm |\n|---|---|---|---|---|---|")
    for name in only or JOBS:
        with tempfile.TemporaryDirectory(prefix="dpgraph-cold-") as cache:
            cold, clock, compiled = measured(name, cache)
            warm, _, _ = measured(name, cache)
        took = sum(float(line.split()[0]) for line in compiled)
        click.echo(f"| {name} | {cold:.1f} | {took:.1f} | {len(compiled)} | {clock:.1f} | {warm:.1f} |")
        for line in compiled if parts else ():
            spent, times, function = line.split()
            click.echo(f"    {float(spent):6.2f} {times:>3} {function}")


if __name__ == "__main__":
    main()
