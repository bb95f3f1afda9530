"""What is read of a file and what is said of it has a limit; each attack that once took minutes or memory is here."""

import json
import os
import tracemalloc

import pandas as pd
import pyarrow as pa
import pytest

import dpgraph as dg
from dpgraph.files.arrays import integers_of, tables_of
from dpgraph.files.documents import document
from dpgraph.files.limits import MAX_EXCERPT, MAX_MESSAGE, MAX_TOML_BYTES, excerpt, read_text, shortened
from dpgraph.files.networks import MAX_KEY_PARTS, parse_json, parse_toml
from dpgraph.mechanisms.additive.plans import whose_blocks
from tests.files.edits import edited
from tests.files.test_documents import RELEASE
from tests.files.test_networks import EXPECTED, TOML

pytestmark = pytest.mark.usefixtures("no_hang")


def refusal(read, *words, **settings):
    with pytest.raises(dg.errors.FileError) as caught:
        read(*words, **settings)
    return str(caught.value)


def test_no_more_is_read_than_the_limit_and_the_limit_is_read(tmp_path):
    path = tmp_path / "n.toml"
    path.write_text("x" * 100)
    assert read_text(path, 100) == "x" * 100
    assert "is larger than 99 bytes" in refusal(read_text, path, 99)


@pytest.mark.parametrize("name", ["n.toml", "n.json", "n.bif"])
def test_a_file_without_end_is_refused(name, tmp_path, monkeypatch):
    for limit in ("MAX_TOML_BYTES", "MAX_NETWORK_BYTES", "MAX_DOCUMENT_BYTES"):
        monkeypatch.setattr(f"dpgraph.files.networks.{limit}", 10**6)
    os.symlink("/dev/zero", tmp_path / name)
    tracemalloc.start()
    assert "is larger than 1,000,000 bytes" in refusal(dg.read_network, tmp_path / name)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10**7


def test_a_small_file_takes_little_memory(tmp_path):
    """Rejects a read of all that is allowed: Python takes 512 MiB for it, whatever the file holds."""
    (tmp_path / "r.json").write_text("{}")
    tracemalloc.start()
    assert read_text(tmp_path / "r.json") == "{}"
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_model_larger_than_the_limit_is_read_where_asked(tmp_path):
    dg.save(RELEASE, tmp_path / "r.json")
    size = (tmp_path / "r.json").stat().st_size
    assert dg.load(tmp_path / "r.json", max_bytes=size) == RELEASE
    assert f"is larger than {size - 1:,} bytes" in refusal(dg.load, tmp_path / "r.json", max_bytes=size - 1)
    assert "max_bytes must be a whole number" in refusal(dg.load, tmp_path / "r.json", max_bytes=0)


def test_the_mark_of_a_byte_order_is_not_read(tmp_path):
    (tmp_path / "n.toml").write_bytes(b"\xef\xbb\xbf" + TOML.encode())
    assert dg.read_network(tmp_path / "n.toml") == EXPECTED
    (tmp_path / "r.json").write_bytes(b"\xef\xbb\xbf" + edited(document(RELEASE)).encode())
    assert dg.load(tmp_path / "r.json") == RELEASE
    (tmp_path / "n.toml").write_bytes(b"\xef\xbb\xbf" * 2 + TOML.encode())
    assert "cannot be parsed" in refusal(dg.read_network, tmp_path / "n.toml")


def test_messages_hold_a_few_words_of_a_file(tmp_path):
    assert len(excerpt("x" * 10**6)) < MAX_EXCERPT + 10
    assert len(shortened("x" * 10**6)) == MAX_MESSAGE
    for text in (
        '[variables]\na = ["' + "x" * 10**5 + '", 1]\n[parents]\n',
        '[variables]\na = ["' + '", "'.join(["x" * 5000] * 2) + '"]\n[parents]\n',
        '[variables]\na = [0]\n[parents]\na = ["' + "x" * 10**5 + '"]\n',
        '[variables]\na = { "' + "x" * 10**5 + '" = 1, levels = [1] }\n[parents]\n',
        "[variables]\na = { bins = [" + ", ".join(["1"] * 10**5) + "] }\n[parents]\n",
        "[variables]\na = [0x" + "f" * 10**5 + "]\n[parents]\n",
        '"' + "x" * 10**5 + '" = [\n',
    ):
        (tmp_path / "n.toml").write_text(text)
        assert len(refusal(dg.read_network, tmp_path / "n.toml")) < len(str(tmp_path)) + MAX_MESSAGE + 100


@pytest.mark.parametrize(
    "key",
    [
        ".".join(["a"] * 20_000),
        ".".join(['"a"'] * 20_000),
        ".".join(["'a'"] * 20_000),
        " . ".join(["a"] * 20_000),
        ".".join([r'"\""'] * 20_000),
        '.a."b".'.join(["'.'"] * 5_000),
    ],
    ids=lambda key: key[:12],
)
def test_a_toml_key_of_many_parts_is_refused(key, tmp_path):
    """Python's reader takes seconds for 20 000, by their square."""
    for text in (f"{key} = 1\n", f"[{key}]\n", f"[[{key}]]\n", f"a = {{ {key} = 1 }}\n"):
        (tmp_path / "n.toml").write_text(text)
        assert f"more than {MAX_KEY_PARTS} words joined by dots" in refusal(dg.read_network, tmp_path / "n.toml")


def test_a_key_of_as_many_parts_as_are_allowed_and_long_text_are_read():
    key = ".".join(["a"] * MAX_KEY_PARTS)
    found = parse_toml(f"{key} = 1")
    for _ in range(MAX_KEY_PARTS):
        (found,) = found.values()
    assert found == 1
    assert parse_toml(f'a = "{"x" * 10**6}"\nb = "1.2.3.4"') == {"a": "x" * 10**6, "b": "1.2.3.4"}


@pytest.mark.parametrize(
    "value",
    ["1" * 10**6, "0x" + "f" * 10**6, "[" * 10**5, "{ a = " * 10**5, '"' + "\\" * 10**6, "1" + "_0" * 10**5, "1e999"],
    ids=lambda value: value[:10],
)
def test_absurd_toml_is_refused(value, tmp_path):
    (tmp_path / "n.toml").write_text(f"[variables]\na = [{value}]\n[parents]\n")
    refusal(dg.read_network, tmp_path / "n.toml")
    (tmp_path / "n.toml").write_text("#" * (MAX_TOML_BYTES + 1))
    assert "is larger than 1,048,576 bytes" in refusal(dg.read_network, tmp_path / "n.toml")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1E+0400", "9" * 400 + ".0", "NaN", "Infinity", "-Infinity"])
def test_a_json_number_that_is_infinite_is_refused(number):
    with pytest.raises(dg.errors.FileError, match="is not a number"):
        parse_json(f'{{"a": [0.5, {number}]}}')


@pytest.mark.parametrize("number", ["1e308", "1e-999", "1.5e-400", "5e-324", "1E+100", "9" * 308 + ".0", "9" * 300])
def test_a_json_number_that_is_finite_is_read(number):
    assert parse_json(f'["1e999", {number}]') == ["1e999", json.loads(number)]


def test_a_key_that_is_there_twice_among_many_is_named():
    text = "{" + ", ".join(f'"k{i}": 0' for i in range(200_000)) + ', "k199999": 0}'
    with pytest.raises(dg.errors.FileError, match="the key 'k199999' is there twice"):
        parse_json(text)


@pytest.mark.parametrize("read", [integers_of, lambda plain: tables_of({"a": plain})])
def test_text_among_numbers_takes_no_memory(read):
    """An array of them would have the longest text in each of its cells: here 40 GB."""
    with pytest.raises(dg.errors.FileError, match="something that is not"):
        read([1] * 10_000 + ["x" * 10**6])


@pytest.mark.proof
def test_many_variables_in_a_chain_or_a_circle_are_read_in_linear_time():
    count = 50_000
    variables = {f"v{i}": [0] for i in range(count)}
    chain = {f"v{i}": [f"v{i + 1}"] for i in range(count - 1)}
    network = dg.Network.of(variables, chain)
    assert network.order == tuple(f"v{i}" for i in reversed(range(count)))
    with pytest.raises(dg.errors.NetworkError, match="the graph has a cycle"):
        dg.Network.of(variables, chain | {f"v{count - 1}": ["v0"]})
    with pytest.raises(dg.errors.NetworkError, match="level 49999 is declared twice"):
        dg.Network.of({"a": [*range(count), count - 1]}, {})
    with pytest.raises(dg.errors.NetworkError, match="names its parent 'v49999' twice"):
        dg.Network.of(variables, {"v0": [*list(variables)[1:], "v49999"]})


def test_a_family_has_no_more_variables_than_an_array_has_axes():
    def wide(count):
        names = [f"v{i}" for i in range(count)]
        return dg.Network.of({name: [0] for name in names}, {"v0": names[1:]})

    assert len(wide(32).family("v0")) == 32
    with pytest.raises(dg.errors.NetworkError, match="the family of 'v0' has 33 variables, more than 32"):
        wide(33)


@pytest.mark.parametrize("zero", ["0e99999999999", "0e-99999999999", "0.0E9999999", "00e+99999999"])
def test_a_zero_with_a_huge_exponent_is_zero(zero, tmp_path):
    """Its exact value by way of the power of ten would take all memory."""
    assert dg.Budget(1, zero).delta == 0
    with pytest.raises(dg.errors.ReleaseError, match="epsilon must be a finite number above 0"):
        dg.Budget(zero)
    plain = document(RELEASE)
    plain["event"]["delta"] = zero
    (tmp_path / "r.json").write_text(edited(plain))
    assert "an exact number as it is written" in refusal(dg.load, tmp_path / "r.json")


def test_a_ledger_without_a_data_set_is_said_to_be_a_database(tmp_path):
    dg.Budget.open(str(tmp_path / "led.sqlite"), dataset="rows", epsilon=1).ledger.close()
    with pytest.raises(dg.errors.FileError, match="is an SQLite database; of a ledger in it say --dataset"):
        dg.load(tmp_path / "led.sqlite")


def test_a_file_of_rows_is_answered_with_what_reads_it(tmp_path):
    table = pa.table({"a": [1]})
    with pa.ipc.new_file(tmp_path / "rows.arrow", table.schema) as writer:
        writer.write_table(table)
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "rows.parquet")
    assert "dg.count takes its table" in refusal(dg.load, tmp_path / "rows.arrow")
    assert "dg.count, fit and evaluate" in refusal(dg.load, tmp_path / "rows.parquet")


def blocks_of(mechanism, blocks, parents, levels=2):
    """A release of blocks of coefficients whose record is whole; ``v0`` has so many parents."""
    names, parents = [f"v{i}" for i in range(parents + 1)], [f"v{i}" for i in range(1, parents + 1)]
    moved = {"l1": 1, "l2_squared": 1, "moved_cells": 1, "fixed_total": False}
    law = {"name": "discrete-laplace", "scale": 64.0}
    measured = [{"table": block, "cells": 1, "law": law, "movement": moved} for block in blocks]
    event = {"mechanism": mechanism, "epsilon": "1", "delta": "0", "measurements": measured}
    network = {"variables": {name: list(range(levels)) for name in names}, "parents": {"v0": parents}}
    head = {"format": "dpgraph-release", "version": 3, "kind": "coefficients", "network": network, "event": event}
    record = {"unit": {"neighbours": "add-remove", "rows_per_person": 1}, "private": True}
    record |= {"cost": {"epsilon": "1", "delta": "0"}, "n": None, "grid": 1, "step": 1, "pseudo_records": 0}
    return head | record | {"blocks": [{"variables": block, "law": law, "values": 1} for block in blocks]}


@pytest.mark.parametrize("mechanism", ["LaplaceMechanism", "FourierMechanism"])
@pytest.mark.parametrize(
    "blocks", [[["v0"]], [[], ["v0"]], [[], [f"v{i}" for i in range(18)]]], ids=["one", "two", "one of many variables"]
)
def test_blocks_are_counted_before_those_of_the_network_are_listed(mechanism, blocks, tmp_path):
    """Rejects a list of 262 144 subsets of a family for a file of 1.4 kB: 6 s and 214 MB, before it was refused."""
    path = tmp_path / "r.json"
    path.write_text(edited(blocks_of(mechanism, blocks, 17)))
    assert path.stat().st_size < 2_000
    tracemalloc.start()
    refusal(dg.load, path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_coefficients_are_counted_before_those_of_their_network_are_listed():
    network = dg.Network.of({f"v{i}": [0, 1] for i in range(18)}, {"v0": [f"v{i}" for i in range(1, 18)]})
    tracemalloc.start()
    with pytest.raises(dg.errors.NetworkError, match="downward closure"):
        dg.results.NoisyCoefficients(network, {(): 1}, {(): dg.extension.DiscreteLaplace(1.0)}, None)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_block_of_many_names_is_refused_by_its_number_of_subsets():
    """Rejects all subsets that leave out one name: a block of 10 000 names would make as many of as many."""
    network = dg.Network.of({f"v{i}": [0, 1] for i in range(3000)}, {})
    tracemalloc.start()
    assert whose_blocks(network, [(), tuple(network.domain.names)]) is None
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.DomainWarning")
@pytest.mark.parametrize("level", ["0", "007", "10", "9" * 5000, "\u0663"])
def test_a_level_of_many_digits_is_no_number(level):
    """Rejects a whole number made of a level's text, which has as many digits as a file gives it."""
    with pytest.raises(dg.errors.DomainError):
        dg.count(pd.DataFrame({"a": [1, 2]}), dg.Network.of({"a": [level, "x"]}, {}))
