"""Every public step that may take above two seconds: how long, what it shows meanwhile, how soon Ctrl-C ends it.

Each step is run whole in a process of its own, at a terminal that is read. If it took above two seconds of processor
time it is begun again several times, and SIGINT is sent at shares of that time, or of the first bar's advance. Given
are the longest time from the signal until the step was left, in processor seconds and by the clock, and what changed
in its folder or its budget. Commands are processes under a terminal as well, timed until they end.

    python benchmarks/waiting.py --groups random family --out waiting.json
    python benchmarks/waiting.py --groups commands --only "dpgraph audit"
    python benchmarks/waiting.py --table waiting.json
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gc
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth import parents_of

#: Steps below this many processor seconds are no wait.
LEAST = 2.0
#: Of one family.
CELLS = 1_000_000
#: When SIGINT is sent, as shares of the time the whole step takes, or of ``LONGEST`` seconds where it takes longer.
LONGEST = 30.0
SHARES = (0.2, 0.5, 0.8)
TICK = os.sysconf("SC_CLK_TCK")
GROUPS = ("chain", "star", "random", "grid", "family", "rows", "munin", "learned", "fits", "audits", "commands")

#: What is given to steps that have a bar.
SHOWN: dict[str, Any] = {"progress": True}

#: A step: its name, and a function of what earlier steps made.
Step = tuple[str, Callable[[dict[str, Any]], Any]]


@dataclass
class Found:
    """A line of the table; times in seconds, ``heard`` of the processor and ``heard_wall`` by the clock."""

    group: str
    step: str
    seconds: float
    wall: float
    shows: str = ""
    heard: float | None = None
    heard_wall: float | None = None
    left: str = ""


def words_of(screen: bytes) -> str:
    """The last line that a bar drew on the screen, without its numbers."""
    lines = [one.strip() for one in re.split(r"[\r\n]", screen.decode(errors="replace")) if one.strip()]
    bars = [one for one in lines if re.search(r"\d+%\||\d\d:\d\d", one)]
    return re.split(r":?\s+\d+%|:?\s*\d\d:\d\d", bars[-1])[0].strip() if bars else ""


def used_by(pid: int) -> float:
    """Processor seconds that a process has used, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def watched(begin: Callable[[], int], after: float | None) -> tuple[int, bytes, float, float, float]:
    """Runs what ``begin`` forks to its end, SIGINT sent after so many processor seconds.

    Returns:
        Its exit code, its screen, processor seconds in all, and processor and wall seconds since the signal.
    """
    pid, screen_end = pty.fork()
    if pid == 0:
        code = 1
        with contextlib.suppress(BaseException):
            code = begin()
        os._exit(code)
    fcntl.ioctl(screen_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    screen, used, used_then, sent = b"", 0.0, 0.0, None
    while True:
        ready, _, _ = select.select([screen_end], [], [], 0.02)
        if ready:
            try:
                got = os.read(screen_end, 65536)
            except OSError:
                got = b""
            screen += got
            if not got:
                break
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            used = used_by(pid)
        if sent is None and after is not None and used >= after:
            used_then, sent = used, time.perf_counter()
            os.kill(pid, signal.SIGINT)
    _, status, resources = os.wait4(pid, 0)
    used = resources.ru_utime + resources.ru_stime
    since = 0.0 if sent is None else time.perf_counter() - sent
    os.close(screen_end)
    return os.waitstatus_to_exitcode(status), screen, used, used - used_then if sent else 0.0, since


def state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Names, sizes and times of the files of a folder."""
    return {one.name: (one.stat().st_size, one.stat().st_mtime_ns) for one in folder.iterdir()}


def measure(group: str, name: str, run: Callable[[], Any], folder: Path, seconds: float, wall: float) -> Found:
    """One step that took so long, interrupted."""

    def begin() -> int:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            run()
        except KeyboardInterrupt:
            return 77
        except BaseException as error:
            traceback.print_exc()
            print(f"\nFAILED {type(error).__name__}: {error}", flush=True)
            return 1
        return 0

    line = Found(group, name, seconds, wall)
    if seconds < LEAST:
        return line
    heard, heard_wall, left = [], [], set()
    for share in SHARES:
        before = state_of(folder)
        code, screen, _, late, late_wall = watched(begin, share * min(seconds, LONGEST))
        if code == 0:
            continue  # it was through before the signal came
        line.shows = line.shows or words_of(screen)
        heard.append(late)
        heard_wall.append(late_wall)
        now = state_of(folder)
        left |= {one for one in now.keys() | before.keys() if now.get(one) != before.get(one)}
        if code not in (77, 130, -signal.SIGINT):
            told = re.search(rb"FAILED (.*)", screen)
            left.add(told[1].decode().strip()[:200] if told else f"exit code {code}")
    line.heard, line.heard_wall = max(heard, default=None), max(heard_wall, default=None)
    line.left = ", ".join(sorted(left))
    return line


def graph_steps(kind: str, folder: Path, size: int, rows: int) -> list[Step]:
    """The whole way of a graph of so many variables, and pages and questions of it."""
    import dpgraph as dg

    unit, mechanism = dg.PrivacyUnit("replace"), dg.LaplaceMechanism(epsilon=1)
    family = kind == "family"
    parents = parents_of(kind, CELLS if family else size)
    levels = list(range(10 if kind == "family" else 2))

    def drawn(method: str) -> Callable[[dict[str, Any]], Any]:
        settings = {"draws": 10 if family else 100, "seed": 0, "progress": True}
        return lambda done: dg.posterior(done["release"], method=method, **settings)

    many = 1_000_000 if family else 100_000
    return [
        ("Network.of", lambda done: dg.Network.of(dict.fromkeys(parents, levels), parents)),
        ("order", lambda done: done["Network.of"].order),
        ("mechanism.event", lambda done: mechanism.event(done["Network.of"], unit)),
        ("privacy_cost", lambda done: dg.privacy_cost(done["Network.of"], epsilon=1, unit=unit, n=rows, **SHOWN)),
        ("rows", lambda done: random_codes(done["Network.of"].domain, rows)),
        ("count", lambda done: dg.count(done["rows"], done["Network.of"], **SHOWN)),
        ("release", lambda done: dg.release(done["count"], mechanism, budget=dg.Budget(1, unit=unit), **SHOWN)),
        ("reconcile", lambda done: dg.reconcile(done["release"])),
        ("posterior", lambda done: dg.posterior(done["release"], **SHOWN, method="plug-in")),
        ("draws by tables", drawn("tables")),
        *([] if family else [("draws, normal", drawn("normal"))]),
        ("save release", lambda done: dg.save(done["release"], folder / "release.json", **SHOWN)),
        ("load release", lambda done: dg.load(folder / "release.json", **SHOWN)),
        ("save draws", lambda done: dg.save(done["draws by tables"], folder / "draws.npz", **SHOWN)),
        ("load draws", lambda done: dg.load(folder / "draws.npz", **SHOWN)),
        (f"{many:.0e} synthetic rows", lambda done: dg.sample_rows(done["posterior"].mean(), many, 2, **SHOWN)),
        ("query of draws", lambda done: dg.query(done["draws by tables"], "v1", {"v0": 1})),
        ("write_html of a cost", lambda done: dg.write_html(done["privacy_cost"], folder / "cost.html", **SHOWN)),
        ("write_html of a release", lambda done: dg.write_html(done["release"], folder / "release.html", **SHOWN)),
    ]


def random_codes(domain: Any, rows: int) -> Any:
    """Uniform rows as codes."""
    from dpgraph.statistics.rows.codes import Codes
    from dpgraph.structure.frozen import FrozenMap

    rng = np.random.default_rng(1)
    return Codes(
        domain, FrozenMap((name, rng.integers(k, size=rows, dtype=np.uint8)) for name, k in domain.sizes.items())
    )


def sampled_rows(name: str, n: int) -> Any:
    """Rows of one of the bundled networks, as a data frame."""
    import dpgraph as dg

    return dg.sample_rows(dg.load(f"example:{name}"), n, np.random.default_rng(0))


def munin_steps(folder: Path) -> list[Step]:
    """Munin, 1041 variables, from 1000 rows."""
    import dpgraph as dg

    unit = dg.PrivacyUnit("replace")

    def drawn(method: str) -> Callable[[dict[str, Any]], Any]:
        return lambda done: dg.posterior(done["release"], method=method, draws=100, seed=0, progress=True)

    def released(mechanism: Any) -> Callable[[dict[str, Any]], Any]:
        return lambda done: dg.release(done["count"], mechanism, budget=dg.Budget(1, delta="1e-6", unit=unit), **SHOWN)

    return [
        ("network", lambda done: dg.read_network("example:munin")),
        ("privacy_cost", lambda done: dg.privacy_cost(done["network"], epsilon=1, delta="1e-6", unit=unit, **SHOWN)),
        ("rows", lambda done: sampled_rows("munin", 1000)),
        ("count", lambda done: dg.count(done["rows"], done["network"], **SHOWN)),
        ("release", released(dg.LaplaceMechanism(1))),
        ("release, Gaussian", released(dg.GaussianMechanism(1, "1e-6"))),
        ("release, Fourier", released(dg.FourierMechanism(1))),
        ("posterior", lambda done: dg.posterior(done["release"], **SHOWN, method="plug-in")),
        ("draws by tables", drawn("tables")),
        ("draws, normal", drawn("normal")),
        ("save draws as JSON", lambda done: dg.save(done["draws by tables"], folder / "draws.json", **SHOWN)),
        ("load draws as JSON", lambda done: dg.load(folder / "draws.json", **SHOWN)),
        ("save draws", lambda done: dg.save(done["draws by tables"], folder / "draws.npz", **SHOWN)),
        ("load draws", lambda done: dg.load(folder / "draws.npz", **SHOWN)),
        ("1e5 synthetic rows", lambda done: dg.sample_rows(done["posterior"].mean(), 100_000, 0, **SHOWN)),
        ("write_html of a cost", lambda done: dg.write_html(done["privacy_cost"], folder / "cost.html", **SHOWN)),
        ("write_html of a release", lambda done: dg.write_html(done["release"], folder / "release.html", **SHOWN)),
        ("write_html of draws", lambda done: dg.write_html(done["draws by tables"], folder / "draws.html", **SHOWN)),
    ]


def rows_steps(folder: Path, rows: int = 10_000_000) -> list[Step]:
    """1e7 rows of alarm, as codes and as a Parquet file of categories; a person's column beside 1e6 of them."""
    import pandas as pd

    import dpgraph as dg

    def written(done: dict[str, Any]) -> None:
        frame = sampled_rows("alarm", rows // 10)
        import pyarrow as pa
        import pyarrow.parquet as parquet

        table = pa.Table.from_pandas(frame)
        with parquet.ParquetWriter(folder / "rows.parquet", table.schema) as writer:
            for _ in range(10):
                writer.write_table(table)

    def persons(done: dict[str, Any]) -> pd.DataFrame:
        return sampled_rows("alarm", 1_000_000).assign(who=np.arange(1_000_000) % 200_000)

    path, unit = str(folder / "rows.parquet"), dg.PrivacyUnit("add-remove")
    return [
        ("network", lambda done: dg.read_network("example:alarm")),
        ("rows", lambda done: random_codes(done["network"].domain, rows)),
        ("count of codes", lambda done: dg.count(done["rows"], done["network"], **SHOWN)),
        ("file", written),
        ("count of Parquet", lambda done: dg.count(path, done["network"], **SHOWN)),
        ("persons", persons),
        ("count of persons", lambda done: dg.count(done["persons"], done["network"], person="who", **SHOWN)),
        (
            "learn_network",
            lambda done: dg.learn_network(done["rows"], done["network"].domain, epsilon=1, unit=unit, **SHOWN),
        ),
    ]


def learned_steps(folder: Path) -> list[Step]:
    """Networks learned from rows without a graph."""
    import dpgraph as dg

    def learnt(name: str, **settings: Any) -> Callable[[dict[str, Any]], Any]:
        unit = dg.PrivacyUnit("add-remove")
        return lambda done: dg.learn_network(
            done[f"rows of {name}"],
            dg.read_network(f"example:{name}").domain,
            epsilon=1,
            unit=unit,
            **settings,
            **SHOWN,
        )

    return [
        *(
            (f"rows of {name}", lambda done, name=name: sampled_rows(name, 100_000))
            for name in ("alarm", "win95pts", "andes")
        ),
        ("learn alarm", learnt("alarm")),
        ("learn alarm, greedy", learnt("alarm", method="greedy")),
        ("learn win95pts", learnt("win95pts")),
        ("learn andes, 223 variables", learnt("andes")),
        ("choose_network", lambda done: dg.choose_network(done["learn andes, 223 variables"].release, **SHOWN)),
        ("alternatives", lambda done: done["learn alarm"].alternatives(20, progress=True)),
        (
            "posterior over graphs",
            lambda done: done["learn alarm"].posterior(graphs="averaged", draws=50, progress=True),
        ),
    ]


def fits_steps(folder: Path) -> list[Step]:
    """Draws by records, classifiers, regressions, and their judging."""
    import pandas as pd

    import dpgraph as dg

    unit = dg.PrivacyUnit("replace")
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.normal(size=(20_000, 20)), columns=[f"x{i}" for i in range(20)]).clip(-3, 3)
    numbers["y"] = (numbers[["x0", "x1"]].sum(axis=1) + rng.normal(size=20_000)).clip(-9, 9)
    declared = dict.fromkeys(numbers.columns[:-1], (-3, 3))
    words = {f"w{i}": [0, 1] for i in range(30)}
    mails = pd.DataFrame(rng.integers(2, size=(50_000, 30)), columns=list(words)).assign(
        spam=rng.integers(2, size=50_000)
    )

    def released(done: dict[str, Any]) -> Any:
        counts = dg.count(sampled_rows("alarm", 10_000), dg.read_network("example:alarm"))
        return dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1, unit=unit))

    def bayes(**settings: Any) -> Any:
        return dg.PrivateNaiveBayes(words | {"spam": [0, 1]}, epsilon=1, random_state=0, progress=True, **settings)

    def regression(**settings: Any) -> Any:
        return dg.PrivateLinearRegression(declared, (-9, 9), epsilon=1, random_state=0, progress=True, **settings)

    big = 4_000_000
    return [
        ("release", released),
        (
            "draws by records",
            lambda done: dg.posterior(done["release"], method="records", draws=200, seed=0, progress=True),
        ),
        (
            "query_rows, 1e4 rows",
            lambda done: dg.query_rows(
                done["draws by records"],
                "HISTORY",
                sampled_rows("alarm", 10_000)[["CVP", "PCWP", "LVEDVOLUME", "STROKEVOLUME"]],
            ),
        ),
        ("naive Bayes", lambda done: bayes().fit(mails[list(words)], mails["spam"])),
        ("naive Bayes, replace", lambda done: bayes(unit=unit).fit(mails[list(words)], mails["spam"])),
        ("regression", lambda done: regression().fit(numbers[numbers.columns[:-1]], numbers["y"])),
        ("many mails", lambda done: pd.concat([mails] * (big // 50_000), ignore_index=True)),
        (
            "evaluate, 4e6 rows",
            lambda done: dg.evaluate(
                done["naive Bayes"],
                done["many mails"][list(words)],
                done["many mails"]["spam"],
                epsilon=1,
                budget=dg.Budget(1),
                **SHOWN,
            ),
        ),
        (
            "cross_validate",
            lambda done: dg.cross_validate(
                dg.PrivateLinearRegression(declared, (-9, 9)),
                numbers[numbers.columns[:-1]],
                numbers["y"],
                person=np.arange(20_000),
                epsilon=1,
                budget=dg.Budget(1),
                **SHOWN,
            ),
        ),
    ]


def audits_steps(folder: Path) -> list[Step]:
    """Checks on made-up rows."""
    import dpgraph as dg
    from dpgraph import audit

    asia = dg.read_network("example:asia")
    return [
        (
            "calibration, tables",
            lambda done: audit.calibration(asia, dg.LaplaceMechanism(1), method="tables", trials=400, progress=True),
        ),
        (
            "calibration, records",
            lambda done: audit.calibration(
                asia, dg.LaplaceMechanism(1), n=300, method="records", trials=20, progress=True
            ),
        ),
        (
            "calibration, two workers",
            lambda done: audit.calibration(
                asia, dg.LaplaceMechanism(1), n=300, method="records", trials=20, workers=2, progress=True
            ),
        ),
        ("audit.report", lambda done: audit.report(asia, epsilon=1, seconds=15, progress=True)),
        (
            "privacy_cost of a question",
            lambda done: dg.privacy_cost(
                dg.read_network("example:alarm"),
                epsilon=1,
                n=10_000,
                question={"target": "HISTORY", "given": {"CVP": "LOW"}},
                progress=True,
            ),
        ),
    ]


#: Steps that only make what others need.
MADE = ("rows", "network", "file", "persons", "many mails", "rows of alarm", "rows of win95pts", "rows of andes")


def run_group(group: str, only: list[str], size: int, rows: int) -> Iterator[Found]:
    """All steps of a group, one after the other."""
    with tempfile.TemporaryDirectory() as name:
        folder, done = Path(name), {}
        own = {
            "rows": rows_steps,
            "munin": munin_steps,
            "learned": learned_steps,
            "fits": fits_steps,
            "audits": audits_steps,
        }
        steps = own[group](folder) if group in own else graph_steps(group, folder, size, rows)
        for step, run in steps:
            if only and step not in (*only, *MADE, "Network.of", "count", "release", "posterior"):
                continue
            gc.collect()
            before, started = time.process_time(), time.perf_counter()
            try:
                done[step] = run(done)
            except Exception as error:  # what needs it fails too
                print(f"{group}, {step}: {type(error).__name__}: {error}"[:200], flush=True)
                continue
            seconds, wall = time.process_time() - before, time.perf_counter() - started
            if step in MADE or (only and step not in only):
                continue
            line = measure(group, step, lambda run=run: run(done), folder, seconds, wall)
            yield line


def commands(folder: Path) -> dict[str, list[str]]:
    """Commands and their words; what they read is written first."""
    import dpgraph as dg

    unit, munin = dg.PrivacyUnit("replace"), dg.read_network("example:munin")
    sampled_rows("munin", 1000).to_csv(folder / "munin.csv", index=False)
    sampled_rows("alarm", 100_000).to_csv(folder / "alarm.csv", index=False)
    made = dg.release(dg.count(folder / "munin.csv", munin), dg.LaplaceMechanism(1), budget=dg.Budget(1, unit=unit))
    dg.save(made, folder / "made.json")
    dg.save(dg.posterior(made, method="plug-in"), folder / "model.json")
    paid = ["--epsilon", "1", "--out"]
    aware = ["--method", "tables", "--draws", "20"]
    asked = ["--n", "10000", "--question", "HISTORY | CVP=LOW"]
    return {
        "dpgraph cost, munin": ["cost", "example:munin", "--epsilon", "1", "--delta", "1e-6"],
        "dpgraph cost, a question of alarm": ["cost", "example:alarm", "--epsilon", "1", *asked],
        "dpgraph release, munin": ["release", "munin.csv", "--network", "example:munin", *paid, "release.json"],
        "dpgraph posterior, 20 draws": ["posterior", "made.json", *aware, "--out", "draws.npz"],
        "dpgraph sample, 3e5 rows of munin": ["sample", "model.json", "-n", "300000", "--out", "rows.csv"],
        "dpgraph report --html": ["report", "model.json", "--html", "page.html"],
        "dpgraph learn, alarm": ["learn", "alarm.csv", "--domain", "example:alarm", *paid, "learned.toml"],
        "dpgraph audit": ["audit", "example:asia", "--epsilon", "1", "--seconds", "10"],
    }


def run_commands(only: list[str]) -> Iterator[Found]:
    """Whole processes, from their start to their end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command, words in commands(folder).items():
            if only and command not in only:
                continue

            def run(words: list[str] = words) -> None:
                os.chdir(folder)
                os.execv(sys.executable, [sys.executable, "-P", "-m", "dpgraph.cli", *words])

            started = time.perf_counter()
            code, screen, used, _, _ = watched(lambda run=run: run() or 0, None)
            if code != 0:
                print(f"{command}: exit code {code}: {screen[-300:].decode()}", flush=True)
                continue
            yield measure("commands", command, run, folder, used, time.perf_counter() - started)


def table(files: list[Path]) -> None:
    """What was found, as Markdown; of a step that was measured twice the last, and what is no wait in a line below."""
    lines = [Found(**json.loads(line)) for file in files for line in file.read_text().splitlines()]
    latest = {(line.group, line.step): line for line in lines}
    print("| | step | seconds | shows | ended after, processor | by the clock | left behind |")
    print(f"|{'---|' * 7}")
    for line in latest.values():
        if line.seconds >= LEAST:
            heard = ["-" if one is None else f"{one:.2f}" for one in (line.heard, line.heard_wall)]
            cells = [line.group, line.step, f"{line.seconds:.1f}", line.shows or "-", *heard, line.left or "nothing"]
            print(f"| {' | '.join(cells)} |")
    short = [f"{line.group}: {line.step} ({line.seconds:.2g})" for line in latest.values() if line.seconds < LEAST]
    print(f"\nBelow {LEAST:g} s: {', '.join(short)}.")


def main() -> None:
    """Runs the groups that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--out", type=Path, help="a file to which each line is added")
    parser.add_argument("--table", type=Path, nargs="+", help="only print what such files hold")
    arguments = parser.parse_args()
    if arguments.table:
        table(arguments.table)
        return
    for group in arguments.groups:
        whole = run_group(group, arguments.only, arguments.size, arguments.rows)
        for line in run_commands(arguments.only) if group == "commands" else whole:
            print(json.dumps(asdict(line)), flush=True)
            if arguments.out:
                with arguments.out.open("a") as file:
                    file.write(json.dumps(asdict(line)) + "\n")


if __name__ == "__main__":
    main()
