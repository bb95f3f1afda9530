"""A file appears whole or not at all, whether of one text or of many data frames."""

import os
import resource
import socket
import threading
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.files import atomic_write
from dpgraph.files.atomic_write import check_writable, write_frames, write_text

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


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_an_old_file_keeps_its_permissions(mode, tmp_path):
    target = tmp_path / "made.json"
    target.write_text("old")
    target.chmod(mode)
    write_text(target, "new")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", mode)


def test_what_is_being_written_may_be_read_by_no_more_than_the_old_file(tmp_path):
    target = tmp_path / "made.json"
    target.write_text("old")
    target.chmod(0o600)
    with atomic_write.replacing(target):
        (made,) = tmp_path.glob(".dpgraph-*")
        assert made.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_keeps_to_the_umask(mask, tmp_path):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "made.json", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "made.json").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_written(there, tmp_path):
    """Relative, and of a link; where the target is not there yet it is made, as a shell does."""
    (tmp_path / "far").mkdir()
    if there:
        (tmp_path / "far" / "target.json").write_text("old")
    (tmp_path / "far" / "link.json").symlink_to("target.json")
    (tmp_path / "made.json").symlink_to("far/link.json")
    write_text(tmp_path / "made.json", "new")
    assert os.readlink(tmp_path / "made.json") == "far/link.json"
    assert os.readlink(tmp_path / "far" / "link.json") == "target.json"
    assert (tmp_path / "far" / "target.json").read_text() == "new"
    assert sorted(os.listdir(tmp_path / "far")) == ["link.json", "target.json"]


def test_what_cannot_be_written_is_named_with_its_reason(tmp_path):
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "circle.json").symlink_to("circle.json")
    (tmp_path / "nowhere.json").symlink_to("gone/made.json")
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(tmp_path / "s.json"))
    with sock:
        for name, reason in {
            "folder.json": "it is a folder",
            "circle.json": "symbolic links",
            "nowhere.json": "there is no folder",
            "s.json": "it is no file",
            f"{'x' * 256}": "File name too long",
        }.items():
            for act in (check_writable, lambda target: write_text(target, "new")):
                with pytest.raises(dg.errors.FileError, match=f"cannot be written: .*{reason}"):
                    act(tmp_path / name)
    with pytest.raises(dg.errors.FileError, match=r"/proc/made\.json cannot be written"):
        check_writable(Path("/proc/made.json"))  # not even root may
    with pytest.raises(dg.errors.FileError, match="/dev/full cannot be written: No space left on device"):
        write_text(Path("/dev/full"), "new")
    with pytest.raises(dg.errors.FileError, match="half a surrogate pair"):
        write_text(tmp_path / "made.json", "\ud800")
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".dpgraph")]


def test_whether_a_file_can_be_written_is_found_out_without_writing(tmp_path):
    (tmp_path / "made.json").write_text("old")
    check_writable(tmp_path / "made.json")
    check_writable(tmp_path / "other.json")
    check_writable(Path("/dev/full"))
    assert os.listdir(tmp_path) == ["made.json"]
    assert (tmp_path / "made.json").read_text() == "old"


def test_the_longest_name_there_is(tmp_path):
    name = "é" * 125 + ".json"
    assert len(name.encode()) == 255
    for text in ("old", "new"):
        write_text(tmp_path / name, text)
        assert os.listdir(tmp_path) == [name]
        assert (tmp_path / name).read_text() == text


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_pipe_takes_what_a_file_would_hold(suffix, tmp_path):
    pipe, read = tmp_path / f"pipe.{suffix}", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_frames(pipe, [frame(0, 3), frame(3, 9)])
    reader.join()
    write_frames(tmp_path / f"file.{suffix}", [frame(0, 3), frame(3, 9)])
    assert read == [(tmp_path / f"file.{suffix}").read_bytes()]
    assert pipe.is_fifo()


def test_an_open_file_goes_on_where_it_is(tmp_path):
    """``/dev/fd/7`` of a shell's ``>>``: what is there stays."""
    with open(tmp_path / "log", "w") as file:
        file.write("before\n")
        file.flush()
        write_text(Path(f"/dev/fd/{file.fileno()}"), "after\n")
    assert (tmp_path / "log").read_text() == "before\nafter\n"
