"""Rows at addresses that fsspec opens are read as files of this machine are, and no message holds a password."""

import importlib
import pickle
import traceback
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

import dpgraph as dg
from dpgraph.statistics.rows import files as parquet_files
from dpgraph.statistics.rows.files import Place, place_of
from tests.statistics.test_summary import DOMAIN, NETWORK, SECRET, folder, frame, gzipped, parquet, written
from tests.tiers import Later

dask = Later("dask")


class Bucket(MemoryFileSystem):
    """An object store in memory."""

    protocol = ("s3",)
    store = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    root_marker = "/"

    @classmethod
    def _strip_protocol(cls, path):
        return "/" + path.rpartition("://")[2].strip("/")

    def unstrip_protocol(self, name):
        return f"s3:/{name}"


class Refusing(Bucket):
    """An object store that lets nobody in."""

    protocol = ("denied",)

    def exists(self, path, **settings):
        raise PermissionError(f"{SECRET} may not")


@pytest.fixture(autouse=True)
def _stores(monkeypatch):
    """Two protocols, for one test."""
    known = importlib.import_module("fsspec.registry")._registry
    for system in (Bucket, Refusing):
        monkeypatch.setitem(known, system.protocol[0], system)
    Bucket.store.clear()


def put(path):
    """A file or a folder in the store; its address."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    for file in files:
        Bucket().pipe_file(f"s3://bucket/{file.relative_to(path.parent)}", file.read_bytes())
    return f"s3://bucket/{path.name}"


FILES = {
    "csv": lambda rows, tmp: written(rows, tmp / "rows.csv"),
    "csv.gz": lambda rows, tmp: gzipped(rows, tmp / "rows.csv.gz"),
    "parquet": lambda rows, tmp: parquet(rows, tmp / "rows.parquet", row_group_size=13),
    "folder": lambda rows, tmp: folder(rows, tmp / "rows"),
}


@pytest.mark.parametrize("kind", FILES)
def test_an_address_is_counted_as_a_file(kind, tmp_path):
    address = put(FILES[kind](frame(), tmp_path))
    expected = dg.count(frame(), NETWORK).sensitive_tables
    assert dg.count(address, NETWORK).sensitive_tables == expected
    assert dg.count(iter([address]), NETWORK).sensitive_tables == expected
    assert dg.statistics.encode(address, DOMAIN).sensitive_rows == len(frame())
    capped = dg.count(address, NETWORK, person="unused", rows_per_person=4)
    assert capped.sensitive_rows == 4


@pytest.mark.systems
def test_workers_open_an_address_themselves(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "PIECE_ROWS", 40)
    address = put(folder(frame(), tmp_path / "rows"))
    expected = dg.count(frame(), NETWORK).sensitive_tables
    for scheduler in ("synchronous", "threads"):
        with dask.config.set(scheduler=scheduler):
            assert dg.count(address, NETWORK, engine="dask").sensitive_tables == expected


def test_workers_in_other_processes_open_an_address(spark, tmp_path):
    path = folder(frame(), tmp_path / "rows")
    expected = dg.count(frame(), NETWORK).sensitive_tables
    assert dg.count(f"file://{path}", NETWORK, engine=spark).sensitive_tables == expected


def test_a_folder_holds_the_same_files_at_an_address(tmp_path):
    path = folder(frame(), tmp_path / "rows")
    (path / "_hidden").mkdir()
    (path / "_hidden" / "c.parquet").write_text("")
    (path / ".d.parquet").write_text("")
    address = put(path)
    inside = [Path(place.path).relative_to(path) for place in place_of(path).files()]
    assert [Path(place.path).relative_to("/bucket/rows") for place in place_of(address).files()] == inside
    assert [str(place) for place in inside] == ["a.parquet", "deep/b.parquet", "notes.txt"]


def test_a_place_travels_without_what_opens_it(tmp_path):
    address = put(written(frame(3), tmp_path / "rows.csv"))
    place = place_of(address)
    place.exists()
    assert vars(pickle.loads(pickle.dumps(place))) == {"path": "/bucket/rows.csv", "address": address}


REFUSED = {
    "s3://bucket/nothing.csv": "there is no file s3://bucket/nothing.csv",
    "s3://key:password@bucket/nothing.csv": "there is no file s3://bucket/nothing.csv",
    "neverknown://key:password@bucket/rows.csv": "neverknown://bucket/rows.csv cannot be reached; does fsspec know its",
    "denied://key:password@bucket/rows.csv": "denied://bucket/rows.csv cannot be reached; does fsspec know its",
    Path("s3://bucket/nothing.csv"): "there is no file s3:/bucket/nothing.csv; give an address as text, not as a Path",
}


@pytest.mark.parametrize("address", REFUSED, ids=str)
def test_an_address_that_leads_nowhere_is_told_of_without_its_password(address):
    for settings in ({}, {"engine": "dask"}, {"person": "who"}):
        with pytest.raises(dg.errors.DomainError) as caught:
            dg.count(address, NETWORK, **settings)
        shown = "".join(traceback.format_exception(caught.value))
        assert str(caught.value).startswith(REFUSED[address])
        assert "password" not in str(caught.value)
        assert SECRET not in shown
        assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_file_that_goes_away_is_told_of(tmp_path):
    put(parquet(frame(20), tmp_path / "rows.parquet"))
    (piece,) = parquet_files.pieces(place_of("s3://bucket/rows.parquet"), DOMAIN)
    Bucket.store.clear()
    with pytest.raises(dg.errors.DomainError, match=r"there is no file s3://bucket/rows\.parquet; every worker must"):
        list(parquet_files.read(piece, DOMAIN))
    assert Place(piece.file, piece.address) == Place("/bucket/rows.parquet", "s3://bucket/rows.parquet")


def test_a_damaged_file_is_refused_as_on_this_machine(tmp_path):
    for name, content in (("a.parquet", SECRET), ("b.csv", f"color,size,flag,age\nred,1,true,5\n{SECRET},1\n")):
        (tmp_path / name).write_text(content)
        with pytest.raises(dg.errors.DomainError, match=f"s3://bucket/{name} cannot be read") as caught:
            dg.count(put(tmp_path / name), NETWORK)
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_text_of_an_iterator_is_not_repeated_as_an_address():
    for text in (f"s3://bucket/{SECRET}", f"neverknown://{SECRET}", f"denied://{SECRET}"):
        with pytest.raises(dg.errors.DomainError, match="yields a text that is not the path of a file") as caught:
            dg.count(iter([text]), NETWORK)
        assert SECRET not in "".join(traceback.format_exception(caught.value)).replace(repr(text), "")
