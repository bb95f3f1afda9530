"""Synthetic rows of any number: drawn and written in blocks, the same rows as in one draw."""

import os

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.inference.network import queries

HOME = "dpgraph.cli.models"


@pytest.fixture
def model(run):
    run("release", "rows.csv", "--network", "net.toml", "--epsilon", "5", "--out", "r.json")
    run("posterior", "r.json", "--method", "plug-in", "--out", "m.json")
    return dg.load("m.json").mean()


def expected(model, n):
    """What one draw holds, as pandas writes it."""
    rows = dg.sample_rows(model, n, np.random.default_rng(7))
    rows.to_csv("one.csv", index=False)
    rows.to_parquet("one.parquet", index=False)


def contents(name):
    with open(name, "rb") as file:
        return file.read()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("n", [0, 1, 300])
def test_a_block_is_the_file_that_pandas_writes(suffix, n, model, run):
    expected(model, n)
    run("sample", "m.json", "-n", n, "--seed", "7", "--out", f"s.{suffix}")
    assert contents(f"s.{suffix}") == contents(f"one.{suffix}")


def test_numbers_of_bins_are_as_asked_and_are_counted_again(model, run):
    """Rows of each kind are of the levels of one seed, read from their files."""
    found = {}
    for how in ("uniform", "midpoint", "level"):
        run("sample", "m.json", "-n", 200, "--seed", "7", "--numbers", how, "--out", f"{how}.csv")
        found[how] = dg.statistics.encode(f"{how}.csv", dg.read_domain("net.toml")).columns["age"].tolist()
    assert found["uniform"] == found["midpoint"] == found["level"]
    assert set(pd.read_csv("midpoint.csv")["age"].dropna()) == {21.0, 37.75, 70.25}
    assert set(pd.read_csv("level.csv")["age"]) == {"17-25", "25-50.5", "50.5-90", "missing"}


def test_unobserved_values_are_filled_or_left_out(run):
    domain = {"z": ["0", "1"], "a": dg.Categories(["0", "1"], missing=dg.UNOBSERVED)}
    value = dg.Probabilities(
        dg.Network.of(domain, {"a": ["z"]}), {"z": [0.5, 0.5], "a": [[0.1] * 2, [0.4] * 2, [0.5] * 2]}
    )
    dg.save(value, "holes.json")
    for name, words in (("whole.csv", ()), ("holes.csv", ("--holes",))):
        run("sample", "holes.json", "-n", 200, *words, "--out", name)
    assert not pd.read_csv("whole.csv").isna().to_numpy().any()
    assert pd.read_csv("holes.csv").a.isna().any()  # of 200 at even odds


@pytest.mark.proof
@pytest.mark.parametrize(("limit", "n"), [("_MOST_ROWS", 2 * queries.BLOCK), ("_MOST_CODES", queries.BLOCK + 5)])
def test_blocks_are_the_rows_of_one_draw(limit, n, model, run, monkeypatch):
    monkeypatch.setattr(f"{HOME}.{limit}", 1)  # the least there is: the block of a draw
    expected(model, n)
    run("sample", "m.json", "-n", n, "--seed", "7", "--out", "s.csv")
    run("sample", "m.json", "-n", n, "--seed", "7", "--out", "s.parquet")
    assert contents("s.csv") == contents("one.csv")
    pd.testing.assert_frame_equal(pd.read_parquet("s.parquet"), pd.read_parquet("one.parquet"))


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
def test_more_rows_than_there_is_room_for_take_no_more_memory_than_a_block(name, failure, model, run, monkeypatch):
    """A quadrillion rows: drawn a block at a time until something stops it, and then nothing is left."""
    asked, draw = [], dg.sample_rows

    def counted(probabilities, n, rng, **_):
        if len(asked) == 3:
            raise failure
        asked.append(n)
        return draw(probabilities, 10, rng)

    monkeypatch.setattr(dg, "sample_rows", counted)
    with open(name, "w") as old:
        old.write("old")
    before = sorted(os.listdir())
    done = CliRunner().invoke(main, ["sample", "m.json", "-n", str(10**15), "--out", name])
    assert done.exit_code == (130 if failure is KeyboardInterrupt else 1)
    assert ("Aborted" if failure is KeyboardInterrupt else f"{name} cannot be written: No space left") in done.stderr
    assert asked == [1 << 20] * 3
    assert (sorted(os.listdir()), contents(name)) == (before, b"old")


def test_many_variables_make_small_blocks(run, monkeypatch):
    """Three hundred columns: fewer rows at once, so that a block holds no more codes than one of 64 columns."""
    network = dg.Network.of({f"v{i}": [0, 1] for i in range(300)}, {})
    dg.save(dg.posterior(released(network), method="plug-in"), "wide.json")
    asked, draw = [], dg.sample_rows
    monkeypatch.setattr(dg, "sample_rows", lambda p, n, rng, **_: asked.append(n) or draw(p, 1, rng))
    run("sample", "wide.json", "-n", 400_000, "--out", "s.csv")
    assert sum(asked) == 400_000
    assert max(asked) * 300 <= 1 << 26


def released(network):
    rows = pd.DataFrame({name: [0, 1] for name in network.domain.names})
    return dg.release(dg.count(rows, network), dg.LaplaceMechanism(1), budget=dg.Budget(1))


@pytest.mark.parametrize("n", [300, queries.BLOCK + 1])
def test_a_bar_is_for_many_rows_at_a_terminal(n, model, at_terminal, monkeypatch):
    monkeypatch.setattr(f"{HOME}._MOST_ROWS", 1)
    shown = at_terminal("sample", "m.json", "-n", n, "--out", "s.csv")
    assert ("rows: 100%" in shown) == (n > queries.BLOCK)
    assert len(pd.read_csv("s.csv")) == n
