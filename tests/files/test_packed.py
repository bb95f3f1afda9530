"""Binary archives hold what JSON holds, to the last bit; a damaged or hostile one is refused before it takes memory."""

import copy
import io
import json
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.files import packed
from dpgraph.files.digest import sealed
from dpgraph.files.documents import document
from dpgraph.files.packed import DOCUMENT
from dpgraph.files.queried import queried
from dpgraph.structure.design import LinearDesign

NETWORK = dg.Network.of({"a": ["x", "y"], "b": [0, 1, 2], "c": ["n", "y"]}, {"b": ["a"], "c": ["a", "b"]})


def released(seed=1):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"a": rng.choice(["x", "y"], 200), "b": rng.integers(0, 3, 200), "c": rng.choice(["n", "y"], 200)}
    )
    budget = dg.Budget(1, unit=dg.PrivacyUnit("add-remove"))
    noise = dg.testing.SeededNoise(seed)
    return dg.release(dg.count(rows, NETWORK), dg.LaplaceMechanism(1), budget=budget, noise=noise)


@pytest.fixture(scope="module")
def draws():
    return dg.posterior(released(), method="records", draws=60, seed=1)


@pytest.fixture
def archive(draws, tmp_path):
    dg.save(draws, tmp_path / "d.npz")
    return tmp_path / "d.npz"


def values(draws):
    rng = np.random.default_rng(3)
    log = pd.DataFrame(
        {"s": rng.choice(["p", "q"], 200), "t": rng.integers(0, 3, 200), "f": rng.choice(["u", "v"], 200)}
    )
    domain = dg.Domain.of({"s": ["p", "q"], "t": [0, 1, 2], "f": ["u", "v"]})
    hmm = dg.PrivateHMM(2, domain, 5, sequence="s", time="t", iterations=12, burn_in=2).fit(log)
    table = pd.DataFrame(rng.random((50, 2)), columns=["x", "y"])
    moments = dg.statistics.regression_moments(table, LinearDesign({"x": dg.Bounded(0, 1)}, "y", (0, 1)))
    noisy = dg.release(moments, dg.LaplaceMechanism(2), budget=dg.Budget(2))
    return {
        "network": NETWORK,
        "release": released(),
        "draws": draws,
        "mean": draws.mean(),
        "plug-in": dg.posterior(released(), method="plug-in"),
        "hmm": hmm.model_,
        "moments": noisy,
        "regression": dg.results.LinearRegressionModel(dg.posterior(noisy, method="plug-in", draws=30)),
    }


@pytest.mark.filterwarnings("ignore")
def test_every_value_is_the_same_as_through_json(draws, tmp_path):
    for name, value in values(draws).items():
        dg.save(value, tmp_path / f"{name}.npz")
        dg.save(value, tmp_path / f"{name}.json")
        again = dg.load(tmp_path / f"{name}.npz")
        assert type(again) is type(dg.load(tmp_path / f"{name}.json"))
        assert document(again) == document(value), name


def test_the_same_value_is_the_same_file(draws, archive, tmp_path):
    dg.save(draws, tmp_path / "e.npz")
    assert archive.read_bytes() == (tmp_path / "e.npz").read_bytes()


def test_numpy_opens_it(archive, draws):
    with np.load(archive, allow_pickle=False) as opened:
        shapes = {opened[name].shape for name in opened.files if name.startswith("array")}
    assert {draws.tables[name].shape for name in "abc"} <= shapes


def test_a_question_reads_the_tables_it_needs(archive, draws, monkeypatch):
    read = []
    real = packed._array_of
    monkeypatch.setattr(packed, "_array_of", lambda file, reference: read.append(1) or real(file, reference))
    asked = CliRunner().invoke(main, ["query", str(archive), "--target", "b", "--given", "a=x", "--json"])
    assert asked.exit_code == 0, asked.output
    assert len(read) == 2  # of a and b; not of c, the means, or the numbers of rows
    expected = dg.query(draws, "b", {"a": "x"})
    found = json.loads(asked.stdout)
    assert [entry["low"] for entry in found["answer"]] == pytest.approx(expected.low)


def test_an_archive_is_opened_as_often_however_many_arrays_it_has(tmp_path, monkeypatch):
    """Rejects an opening for each array: each reads the list of all members, so a load takes their number squared."""
    opened = []

    class Counted(zipfile.ZipFile):
        def __init__(self, *args, **settings):
            opened.append(1)
            super().__init__(*args, **settings)

    def openings(size):
        with open(tmp_path / "many.npz", "wb") as file:
            packed.write_packed(file, {"tables": [np.full(3, float(i)) for i in range(size)]})
        opened.clear()
        monkeypatch.setattr(packed.zipfile, "ZipFile", Counted)
        read = packed.unpacked(packed.read_packed(tmp_path / "many.npz"))
        monkeypatch.undo()
        assert [table.tolist() for table in read["tables"]] == [[float(i)] * 3 for i in range(size)]
        return len(opened)

    assert openings(2) == openings(60) == 1


def rewritten(path, change):
    """The archive with its members changed by a function of {name: bytes}."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)


def array_bytes(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


def edited(members, **changes):
    """Changes what stands for array0 in the document, with a digest that fits."""

    def walk(plain):
        if isinstance(plain, dict):
            if plain.get("array") == "array0" and "sha256" in plain:
                return plain | changes
            return {key: walk(value) for key, value in plain.items()}
        return [walk(value) for value in plain] if isinstance(plain, list) else plain

    members[DOCUMENT] = json.dumps(sealed(walk(json.loads(members[DOCUMENT])))).encode()


FAULTS = {
    "another last digit": lambda m: m.update(
        {"array1.npy": m["array1.npy"][:-8] + bytes([m["array1.npy"][-8] ^ 1]) + m["array1.npy"][-7:]}
    ),
    "an edited document": lambda m: m.update({DOCUMENT: m[DOCUMENT].replace(b'"records"', b'"tables"')}),
    "no document": lambda m: m.pop(DOCUMENT),
    "no array": lambda m: m.pop("array0.npy"),
    "a pickle": lambda m: m.update({"array0.npy": array_bytes(np.array([{}], object), allow_pickle=True)}),
    "no npy": lambda m: m.update({"array0.npy": b"x" * 200}),
    "a large shape": lambda m: edited(m, shape=[1 << 40]),
    "a negative shape": lambda m: edited(m, shape=[-1]),
    "a shape of text": lambda m: edited(m, shape="x"),
    "an object type": lambda m: edited(m, dtype="|O"),
    "another name": lambda m: edited(m, array="../x"),
    "text": lambda m: m.update({DOCUMENT: b"\xff"}),
    "infinite": lambda m: m.update({DOCUMENT: b'{"format": 1e999}'}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_archive_is_refused(fault, archive):
    rewritten(archive, FAULTS[fault])
    with pytest.raises(dg.errors.FileError):
        dg.load(archive)


def test_an_array_of_numbers_that_are_no_probabilities_is_refused(draws, tmp_path):
    bad = dg.results.PosteriorDraws(NETWORK, {name: 2 * draws.tables[name] for name in "abc"}, "tables")
    dg.save(bad, tmp_path / "bad.npz")
    with pytest.raises(dg.errors.FileError, match="sum to 1"):
        dg.load(tmp_path / "bad.npz")
    asked = CliRunner().invoke(main, ["query", str(tmp_path / "bad.npz"), "--target", "b"])
    assert asked.exit_code != 0
    assert "sum to 1" in asked.stderr


@pytest.mark.parametrize("content", [b"", b"PK", b"x" * 100])
def test_what_is_no_archive_is_refused(content, tmp_path):
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(dg.errors.FileError, match="not a whole dpgraph archive"):
        dg.load(tmp_path / "d.npz")
    with pytest.raises(dg.errors.FileError, match="cannot be read"):
        dg.load(tmp_path / "none.npz")


def test_an_archive_cut_anywhere_is_refused(archive):
    whole = archive.read_bytes()
    for length in np.linspace(0, len(whole) - 1, 40).astype(int):
        archive.write_bytes(whole[:length])
        with pytest.raises(dg.errors.FileError):
            dg.load(archive)


def test_a_bomb_takes_no_memory(archive):
    """2 GiB and one byte of zeros in one member: refused by what the archive says of itself."""

    def bomb(members):
        members["array0.npy"] = array_bytes(np.zeros(1 << 22))
        edited(members, shape=[1 << 28])

    rewritten(archive, bomb)
    tracemalloc.start()
    with pytest.raises(dg.errors.FileError, match="another size"):
        dg.load(archive)
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_more_than_a_file_holds_is_refused_before_it_is_written(draws, tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "MOST_BYTES", 1000)
    with pytest.raises(dg.errors.FileError, match="keep fewer draws"):
        dg.save(draws, tmp_path / "d.npz")
    assert not list(tmp_path.iterdir())


def fewer_bytes(read, most):
    """Reads within so many bytes of memory."""
    tracemalloc.start()
    try:
        with pytest.raises(dg.errors.FileError) as caught:
            read()
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    return str(caught.value)


def test_an_array_that_many_places_name_is_refused_before_it_is_read(tmp_path):
    """Rejects a member's size counted once for all that name it: 16 kB took 679 MB."""
    path = tmp_path / "d.npz"
    with open(path, "wb") as file:
        packed.write_packed(file, {"format": "dpgraph-posterior-draws", "version": 3, "tables": [np.zeros(1 << 20)]})

    def many(members):
        plain = json.loads(members[DOCUMENT])
        members[DOCUMENT] = json.dumps(sealed(plain | {"tables": 40 * plain["tables"]})).encode()

    rewritten(path, many)
    assert path.stat().st_size < 30_000
    assert "two places of the document name the same array" in fewer_bytes(lambda: dg.load(path), 1 << 20)
    assert "name the same array" in fewer_bytes(lambda: queried(str(path)), 1 << 20)


def test_members_that_overlap_are_refused(archive):
    """One stretch of the file stands for several members of different names."""
    with zipfile.ZipFile(archive, "a") as file:
        whole = max(file.infolist(), key=lambda member: member.compress_size)
        for number in range(100):
            member = copy.copy(whole)
            member.filename = f"more{number}"
            file.filelist.append(member)
        file._didModify = True
    assert "its members overlap" in fewer_bytes(lambda: dg.load(archive), 1 << 20)
