"""How real processes end: streams that are closed, full or left, signals, and what each exit code says of the file."""

import json
import os
import signal
import subprocess
import sys
import warnings

import pytest

import dpgraph as dg
from dpgraph.cli import exit_codes
from dpgraph.files import atomic_write
from dpgraph.privacy.errors import PriorWarning

pytestmark = pytest.mark.systems

COMMAND = f"exec {sys.executable} -m dpgraph.cli"
RELEASE = "release rows.csv --network net.toml --epsilon 1 --out r.json"
HMM = "fit hmm log.csv --domain log.toml --sequence region --time month --states 2 --epsilon 2 --out m.json"
REGRESSION = "fit regression pay.csv --domain pay.toml --target pay --epsilon 2 --inference plug-in --draws 20"


def shell(words, **settings):
    return subprocess.run(f"{COMMAND} {words}", shell=True, capture_output=True, text=True, check=False, **settings)


@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full", ">&- 2>&-"])
def test_a_release_needs_no_stream(streams):
    """Its result is the file; words that nobody hears are no failure, and get into no file."""
    done = shell(f"{RELEASE} {streams}")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    assert dg.load("r.json").value.network.domain.names == ("sex", "age", "rate")


@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full"])
def test_a_refusal_is_1_and_writes_nothing_whatever_the_streams(stream):
    done = shell(f"{RELEASE.replace('rows.csv', 'none.csv')} {stream}")
    assert done.returncode == 1
    assert done.stderr in ("", "Error: there is no file none.csv [DomainError]\n")
    assert not os.path.exists("r.json")


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (">/dev/full", "Error: the result is lost: stdout: No space left on device\n"),
        (">&-", "Error: the result is lost: stdout: it is closed\n"),
        (">/dev/full 2>/dev/full", ""),
        (">&- 2>&-", ""),
    ],
)
def test_a_result_that_cannot_be_printed_is_3(stream, told):
    done = shell(f"cost net.toml --epsilon 1 {stream}")
    assert (done.returncode, done.stdout, done.stderr) == (3, "", told)


def test_help_that_cannot_be_printed_is_3():
    assert shell("--help >/dev/full").returncode == 3


def test_a_pipe_that_nobody_reads_is_3_without_a_word():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND.split()[1:], *["cost", "net.toml", "--epsilon", "1"]], stdout=writer, check=False,
                          stderr=subprocess.PIPE, text=True)  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (3, "")


def test_a_fit_is_written_before_it_is_printed():
    done = shell(f"{REGRESSION} --out m.json >/dev/full")
    assert done.returncode == 3
    assert "wrote m.json" in done.stderr
    assert dg.load("m.json").draws.design.target == "pay"


def test_a_charge_whose_result_finds_no_room_is_3_and_the_old_file_stays():
    with open("r.json", "w") as old:
        old.write("old")
    done = subprocess.run(f"ulimit -f 1; {COMMAND} {RELEASE}", shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "r.json cannot be written: File too large; the charge stands" in done.stderr
    with open("r.json") as old:
        assert old.read() == "old"
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_stdout_is_a_place_to_write_to(run):
    run(*RELEASE.split())
    for out in ("-", "/dev/stdout"):
        done = shell(f"posterior r.json --method plug-in --out {out}")
        assert done.returncode == 0
        assert json.loads(done.stdout)["format"] == "dpgraph-posterior"
        assert done.stderr.startswith("wrote /dev/stdout: ")
    with open("log", "w") as log:
        log.write("before\n")
    assert shell("posterior r.json --method plug-in --out - >> log").returncode == 0
    with open("log") as log:
        assert log.readline() == "before\n"
        assert json.load(log)["format"] == "dpgraph-posterior"
    assert shell("posterior r.json --out - >&-").returncode == 3
    assert shell("posterior r.json --out - >/dev/full").returncode == 3


@pytest.mark.parametrize("place", ["/proc/x.json", "x" * 300 + ".json", "there.json/x.json"])
def test_a_place_that_takes_no_file_is_found_out_before_the_rows_are_read(place, run):
    with open("there.json", "w"):
        pass
    told = run("release", "none.csv", *RELEASE.split()[2:-1], place, code=2 if "there" in place else 1).stderr
    assert "none.csv" not in told
    assert ("there is no folder" if "there" in place else "cannot be written: ") in told


FITTING = """
import sys
from dpgraph.cli import main
from dpgraph.estimators.hmm import PrivateHMM
fit = PrivateHMM.fit
def told(self, log):
    print("fitting", flush=True)
    return fit(self, log)
PrivateHMM.fit = told
main(sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_long_fit_ends_when_it_is_told_to(number):
    words = f"{HMM} --iterations 5 --burn-in 100000000".split()
    process = subprocess.Popen(
        [sys.executable, "-c", FITTING, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with process:
        assert process.stdout.readline() == b"fitting\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert not [name for name in os.listdir() if name == "m.json" or name.startswith(".")]


def test_a_signal_that_was_ignored_from_the_start_stays_ignored():
    """As ``nohup`` has it."""
    program = "import os, signal; from dpgraph.cli.exit_codes import ended; "
    program += "raise SystemExit(ended(lambda: os.kill(os.getpid(), signal.SIGHUP)))"
    done = subprocess.run(["sh", "-c", 'trap "" HUP; exec "$@"', "sh", sys.executable, "-c", program], check=False)
    assert done.returncode == 0


DEEP = """
import hashlib, os, signal, sys, threading
from pathlib import Path
from dpgraph.cli import exit_codes
from dpgraph.files.atomic_write import replacing
def deep():
    with replacing(Path("made.json")):
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # many minutes, during which no handler of Python's runs
sys.exit(exit_codes.ended(deep))
"""


def test_a_command_deep_in_compiled_code_ends_as_well():
    done = subprocess.run([sys.executable, "-c", DEEP], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (143, "stopped by SIGTERM\n")
    assert not [name for name in os.listdir() if "made" in name or name.startswith(".dpgraph")]


def test_a_program_that_imports_the_package_keeps_its_handlers(run):
    before = {number: signal.getsignal(number) for number in exit_codes.STOPPING}
    run("cost", "net.toml", "--epsilon", "1")
    assert {number: signal.getsignal(number) for number in exit_codes.STOPPING} == before
    assert signal.set_wakeup_fd(-1) == -1


def test_what_an_interrupted_clean_up_leaves_is_removed_in_the_end(tmp_path):
    def broken_off():
        manager = atomic_write.temporary_file(tmp_path / "made", 0o600)
        os.close(manager.__enter__()[0])
        left.append(manager)  # never left by its own end

    left = []
    before = sorted(os.listdir())
    assert exit_codes.ended(broken_off) == 0
    assert sorted(os.listdir()) == before


def test_a_warning_is_a_line_without_control_characters():
    said = []
    exit_codes.ended(lambda: said.append(warnings.formatwarning("level a\x1b[2J\nb", PriorWarning, "x.py", 1)))
    assert said == ["warning: level a\\x1b[2J\\nb\n"]
    assert "x.py" in warnings.formatwarning("level", PriorWarning, "x.py", 1)


@pytest.mark.proof
@pytest.mark.parametrize("after", [0.5, 1.5, 3.0])
def test_a_fit_that_compiles_ends_too(after, tmp_path):
    """From loops that no cache holds: the process ends with the code of its signal, not by a fault of a library."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "none")}
    words = f"{HMM} --iterations 5 --burn-in 100000000".split()
    process = subprocess.Popen(
        [sys.executable, "-c", FITTING, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    with process:
        assert process.stdout.readline() == b"fitting\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(after)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
