"""Encoded rows on disk: the same codes back, named as sensitive, for one domain, and never by accident."""

import os
import stat
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpgraph as dg

DOMAIN = dg.Domain.of({"a": dg.Categories(["x", "y", "z"], other="z"), "b": range(300), "c": dg.Bins([0, 1, 2])})
NETWORK = dg.Network.of(DOMAIN, {"b": ["a"]})


def codes(n=1000):
    rng = np.random.default_rng(n)
    frame = {"a": rng.choice(["x", "y", "w"], n), "b": rng.integers(0, 300, n), "c": rng.random(n) * 2}
    return dg.statistics.encode(pd.DataFrame(frame), DOMAIN)


@pytest.mark.parametrize("n", [0, 1, 1000, 100_000])
def test_codes_come_back_as_they_were(n, tmp_path):
    before = codes(n)
    dg.statistics.write_codes(before, tmp_path / "codes.arrow")
    after = dg.statistics.read_codes(tmp_path / "codes.arrow", DOMAIN)
    for name in DOMAIN.names:
        assert np.array_equal(before.columns[name], after.columns[name])
        assert before.columns[name].dtype == after.columns[name].dtype
    assert dg.count(after, NETWORK).sensitive_tables == dg.count(before, NETWORK).sensitive_tables


def test_the_file_says_what_it_is_and_is_its_owners_alone(tmp_path):
    path = tmp_path / "codes.arrow"
    dg.statistics.write_codes(codes(), path)
    assert next(iter(pa.ipc.open_file(path).schema.metadata)) == b"SENSITIVE"
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_file_is_written_over(tmp_path):
    path = tmp_path / "codes.arrow"
    path.write_text("mine")
    with pytest.raises(dg.errors.DomainError, match="it is there already"):
        dg.statistics.write_codes(codes(), path)
    assert path.read_text() == "mine"
    with pytest.raises(dg.errors.DomainError, match="cannot be written"):
        dg.statistics.write_codes(codes(), tmp_path / "nowhere" / "codes.arrow")


@pytest.mark.parametrize(
    "other",
    [
        {**dict(DOMAIN.variables), "a": ["x", "y", "z"]},
        {**dict(DOMAIN.variables), "a": dg.Categories(["y", "x", "z"], other="z")},
        {**dict(DOMAIN.variables), "c": dg.Bins([0, 1, 3])},
        {name: DOMAIN[name] for name in ("a", "b")},
        {name: DOMAIN[name] for name in ("b", "a", "c")},
    ],
)
def test_another_domain_is_refused(other, tmp_path):
    dg.statistics.write_codes(codes(), tmp_path / "codes.arrow")
    with pytest.raises(dg.errors.DomainError, match="was not written by write_codes for this domain"):
        dg.statistics.read_codes(tmp_path / "codes.arrow", dg.Domain.of(other))


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("zanzibar-4711"),
    "gone": lambda path: path.unlink(),
    "no metadata": lambda path: rewritten(path, lambda table: table.replace_schema_metadata(None)),
    "no level": lambda path: rewritten(path, lambda table: with_column(table, pa.array([3], pa.uint8()))),
    "another type": lambda path: rewritten(path, lambda table: with_column(table, pa.array([0], pa.int64()))),
    "a null": lambda path: rewritten(path, lambda table: with_column(table, pa.array([None], pa.uint8()))),
    "a column less": lambda path: rewritten(path, lambda table: table.drop_columns("c")),
    "a cap of no rows": lambda path: rewritten(path, lambda table: with_cap(table, b'["who", 0, []]')),
    "a cap of a truth": lambda path: rewritten(path, lambda table: with_cap(table, b'["who", true, []]')),
    "a cap of no person": lambda path: rewritten(path, lambda table: with_cap(table, b"[null, 1, []]")),
    "a cap of one word": lambda path: rewritten(path, lambda table: with_cap(table, b'["who", 1, "4711"]')),
    "a cap that is cut": lambda path: rewritten(path, lambda table: with_cap(table, b'["who", 47')),
    "a cap that is no text": lambda path: rewritten(path, lambda table: with_cap(table, b"\xff")),
}


def with_cap(table, cap):
    return table.replace_schema_metadata({**table.schema.metadata, b"cap": cap})


def with_column(table, values):
    return table.slice(0, 1).set_column(0, "a", values)


def rewritten(path, change):
    with pa.OSFile(str(path)) as file:
        table = change(pa.ipc.open_file(file).read_all())
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_and_nothing_of_it_is_said(damage, tmp_path):
    path = tmp_path / "codes.arrow"
    dg.statistics.write_codes(codes(), path)
    DAMAGE[damage](path)
    with pytest.raises(dg.errors.DomainError, match=r"codes\.arrow") as caught:
        dg.statistics.read_codes(path, DOMAIN)
    assert "4711" not in "".join(traceback.format_exception(caught.value))


def test_a_flipped_bit_is_refused_or_read_as_another_level(tmp_path):
    """In a column's name it made text that is no UTF-8, of which Arrow's own error was raised."""
    path = tmp_path / "codes.arrow"
    dg.statistics.write_codes(codes(), path)
    data, refused = path.read_bytes(), 0
    for place in range(0, len(data), 2):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x80]) + data[place + 1 :])
        try:
            dg.statistics.read_codes(path, DOMAIN)
        except dg.errors.DomainError:
            refused += 1
    assert refused > 100
