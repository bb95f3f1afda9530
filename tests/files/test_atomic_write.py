"""A file appears whole or not at all, whether of one text or of many data frames."""

import os
import resource
from itertools import pairwise

import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.files.atomic_write import write_frames, write_text

LEVELS = {"name": ["a", "b,c", 'd"e', "f\ng", "é"], "rate": [0, 1.5], "flag": [True, False]}


def frame(start, stop):
    """Rows start to stop of one endless table, every column categorical, as synthetic rows are."""
    columns = {name: [levels[i % len(levels)] for i in range(start, stop)] for name, levels in LEVELS.items()}
    return pd.DataFrame({name: pd.Categorical(column, categories=LEVELS[name]) for name, column in columns.items()})


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "PARQUET"])
def test_one_frame_is_the_file_that_pandas_writes(suffix, rows, tmp_path):
    write_frames(tmp_path / f"made.{suffix}", iter([frame(0, rows)]))
    expected = tmp_path / "expected"
    if suffix == "csv":
        frame(0, rows).to_csv(expected, index=False)
    else:
        frame(0, rows).to_parquet(expected, index=False)
    assert (tmp_path / f"made.{suffix}").read_bytes() == expected.read_bytes()


@pytest.mark.parametrize("cuts", [[0, 3, 7], [0, 0, 1, 1, 7], [0, 7, 7]])
def test_frames_are_rows_of_one_table(cuts, tmp_path):
    frames = [frame(*ends) for ends in pairwise(cuts)]
    write_frames(tmp_path / "made.csv", frames)
    assert (tmp_path / "made.csv").read_text() == frame(0, 7).to_csv(index=False)
    write_frames(tmp_path / "made.parquet", frames)
    frame(0, 7).to_parquet(tmp_path / "expected", index=False)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "made.parquet"), pd.read_parquet(tmp_path / "expected"))


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt, MemoryError, dg.errors.DomainError])
@pytest.mark.parametrize("name", ["made.csv", "made.parquet"])
def test_a_frame_that_fails_leaves_the_old_file_whole(name, failure, tmp_path):
    def frames():
        yield frame(0, 5)
        raise failure

    (tmp_path / name).write_text("old")
    with pytest.raises(dg.errors.FileError if failure is OSError else failure):
        write_frames(tmp_path / name, frames())
    assert (tmp_path / name).read_text() == "old"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("write", ["text", "made.csv", "made.parquet"])
def test_a_file_for_which_there_is_no_room_is_refused_and_nothing_is_left(write, tmp_path):
    """The system itself refuses here: no file of this process may grow beyond 10 000 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    frames = [pd.DataFrame({"number": range(start, start + 5000)}) for start in range(0, 50_000, 5000)]
    content = "x" * 20_000 if write == "text" else frames
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
        with pytest.raises(dg.errors.FileError, match="cannot be written"):
            (write_text if write == "text" else write_frames)(tmp_path / write, content)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(dg.errors.FileError, match="cannot be written"):
        write_frames(tmp_path / "none" / "made.csv", [frame(0, 1)])


@pytest.mark.parametrize("name", ["made.csv", "made.parquet"])
def test_it_may_be_read_by_whom_any_new_file_may(name, tmp_path):
    write_frames(tmp_path / name, [frame(0, 1)])
    (tmp_path / "plain").write_text("")
    assert (tmp_path / name).stat().st_mode == (tmp_path / "plain").stat().st_mode
