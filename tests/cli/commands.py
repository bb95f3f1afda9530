"""One way to run a command, and what every run must keep to."""

import os

from click.testing import CliRunner

from dpgraph.cli import main


def run(*words, code=0):
    """Runs a command; a refusal comes as an exit code, never as an exception, changes no file and prints no result."""
    before = {name: os.stat(name).st_mtime_ns for name in os.listdir()}
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    if code:
        assert {name: os.stat(name).st_mtime_ns for name in os.listdir()} == before
        assert result.stdout == ""
    return result
