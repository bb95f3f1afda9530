"""A writer that is stopped at any moment leaves the old file or the new one."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dpgraph.files import atomic_write
from dpgraph.files.atomic_write import write_frames, write_text

pytestmark = pytest.mark.systems

ROOT = Path(__file__).parents[2]


def seen(folder, number, rounds, seed=0):
    words = [sys.executable, "-m", "tests.files.killing", folder, number, rounds, seed]
    done = subprocess.run([*map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["hit"] == rounds, found
    return found


def check_killed(found):
    """``kill -9``: the target is whole, and what is left is a hidden file."""
    assert found["broken"] == 0, found
    assert set(found["codes"]) <= {-9, 0}
    assert found["orphans"] > found["hit"] / 2, found  # else the rounds did not hit what they were to hit


def check_stopped(found):
    """SIGTERM of the command: nothing is left."""
    assert (found["broken"], found["orphans"]) == (0, 0), found
    assert set(found["codes"]) <= {143, 0}
    assert 143 in found["codes"]


def test_some_writers_are_killed(tmp_path):
    check_killed(seen(tmp_path, signal.SIGKILL, 10))


def test_some_commands_are_stopped(tmp_path):
    check_stopped(seen(tmp_path, signal.SIGTERM, 4))


@pytest.mark.proof
def test_two_hundred_writers_are_killed(tmp_path):
    check_killed(seen(tmp_path, signal.SIGKILL, 200, seed=1))


@pytest.mark.proof
def test_fifty_commands_are_stopped(tmp_path):
    check_stopped(seen(tmp_path, signal.SIGTERM, 50, seed=1))


def test_two_writers_of_one_target_end_one_after_the_other(tmp_path):
    """Two writers of one target at once: the second ends first, then the first."""
    target = tmp_path / "made.json"
    with atomic_write.replacing(target) as file:
        file.write(b"first")
        write_text(target, "second")
        assert target.read_text() == "second"
    assert target.read_text() == "first"
    assert os.listdir(tmp_path) == ["made.json"]


def rewritten(target, word, times):
    for _ in range(times):
        write_text(target, word * 200_000)


def test_writers_in_threads_and_processes_leave_one_of_their_files(tmp_path):
    target, words = tmp_path / "made.txt", "abcd"
    target.write_text("a" * 200_000)
    spawn = multiprocessing.get_context("spawn")
    workers = [kind(target=rewritten, args=(target, word, 15)) for kind, word in
               zip((threading.Thread, threading.Thread, spawn.Process, spawn.Process), words, strict=True)]  # fmt: skip
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        content = target.read_text()
        assert content in {word * 200_000 for word in words}
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers[2:]] == [0, 0]
    assert os.listdir(tmp_path) == ["made.txt"]


def test_a_fork_leaves_the_files_of_its_parent(tmp_path):
    with atomic_write.temporary_file(tmp_path / "made", 0o600) as (handle, name):
        os.close(handle)
        atomic_write._MADE[name] = os.getpid() + 1  # as a child sees it
        atomic_write.remove_all()
        assert os.path.exists(name)
        atomic_write._MADE[name] = os.getpid()
    assert os.listdir(tmp_path) == []


def test_a_file_is_on_the_disk_before_its_name_is(tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: done.append(os.fstat(handle).st_size) or sync(handle))
    monkeypatch.setattr(os, "replace", lambda *names: done.append("moved") or replace(*names))
    write_text(tmp_path / "made", "x" * 12_345)
    assert done[:2] == [12_345, "moved"]
    assert len(done) == 3  # the folder


def test_an_interruption_between_name_and_file_leaves_nothing(tmp_path, monkeypatch):
    real = os.open

    def interrupted(name, *more):
        handle = real(name, *more)
        if str(name).endswith(".tmp"):
            os.close(handle)
            raise KeyboardInterrupt
        return handle

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_frames(tmp_path / "made.csv", [])
    assert os.listdir(tmp_path) == []
    assert atomic_write._MADE == {}
