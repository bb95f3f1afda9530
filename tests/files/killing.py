"""Writers that are stopped at random moments: a program of its own, since it forks.

``python -m tests.files.killing FOLDER SIGNAL ROUNDS SEED`` prints what it saw as JSON. A round counts only if the
temporary file of the writer was there right before the signal: then the process was inside the write.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.files.atomic_write import write_frames, write_text

OLD, ROWS, BLOCKS = "old\n" * 1000, 4000, 25


def frames():
    for block in range(BLOCKS):
        yield pd.DataFrame({"row": np.arange(block * ROWS, (block + 1) * ROWS), "of": ["all"] * ROWS})


def write(target, _model):
    write_frames(target, frames())


def sample(target, model):
    main(["sample", str(model), "-n", str(4 * BLOCKS * ROWS), "--seed", "1", "--out", str(target)])


def fork(act):
    if child := os.fork():
        return child
    code = 70
    try:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        act()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        os._exit(code)


def hit(act, target, number, seconds, rng):
    """One round: the exit code, and whether the process was inside; None while nothing could be seen."""
    child = fork(act)
    while not (inside := leftovers(target)) and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.0005)
    if not inside:
        return 0, False
    time.sleep(rng.uniform(0, seconds))
    inside = leftovers(target)
    os.kill(child, number)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), bool(inside)


def leftovers(target):
    return [name for name in os.listdir(target.parent) if name != target.name]


def seen(folder, number, rounds, seed):
    """What is left after each round that hit: exit codes, hidden files, broken files."""
    model, target, rng = folder / "model.json", folder / "out" / "made.csv", random.Random(seed)
    target.parent.mkdir()
    network = dg.Network.of({"a": ["x", "y"], "b": [0, 1]}, {"b": ["a"]})
    dg.save(dg.Probabilities(network, {"a": [0.5, 0.5], "b": [[0.5, 0.1], [0.5, 0.9]]}), model)
    act = write if number == signal.SIGKILL else sample
    started = time.perf_counter()
    os.waitpid(fork(lambda: act(target, model)), 0)
    whole, seconds = target.read_bytes(), time.perf_counter() - started
    found = {"hit": 0, "tried": 0, "codes": [], "orphans": 0, "broken": 0, "new": 0}
    while found["hit"] < rounds and found["tried"] < 20 * rounds:
        write_text(target, OLD)
        code, inside = hit(lambda: act(target, model), target, number, seconds, rng)
        found["tried"] += 1
        found["broken"] += target.read_bytes() not in (OLD.encode(), whole)
        left = leftovers(target)
        for name in left:
            (target.parent / name).unlink()
        if inside:
            found["hit"] += 1
            found["codes"] = sorted({*found["codes"], code})
            found["orphans"] += len(left)
            found["new"] += code == 0
    return found


if __name__ == "__main__":
    where, which, many, begin = sys.argv[1:]
    print(json.dumps(seen(Path(where), int(which), int(many), int(begin))))
