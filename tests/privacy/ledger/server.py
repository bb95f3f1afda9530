"""A real PostgreSQL server for the tests: started in a temporary folder on a Unix socket, as a user who is not root."""

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

#: The server refuses to run as root; then it runs as this user.
USER = "nobody"


def programs():
    """The folder of PostgreSQL's programs, or why there is none."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: float(path.split("/")[4]))
    initdb = found[-1] if found else shutil.which("initdb")
    if initdb is None:
        return None, "PostgreSQL's server is not installed (Debian: apt-get install postgresql)"
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        return None, "PostgreSQL refuses to run as root, and there is no setpriv"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return None, "psycopg is not installed"
    return Path(initdb).parent, None


class Server:
    """A server of its own, without a port."""

    def __init__(self, folder):
        self.bin = folder
        self.home = Path(tempfile.mkdtemp(prefix="pg"))
        self.data = self.home / "data"
        self.run("initdb", "-D", self.data, "-A", "trust", "-U", "ledger", "--no-sync", "--no-instructions")
        self.start()

    def run(self, program, *words):
        command = [str(self.bin / program), *map(str, words)]
        if os.getuid() == 0:
            user = pwd.getpwnam(USER)
            os.chown(self.home, user.pw_uid, user.pw_gid)
            drop = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
            command = [*drop, *command]
        with open(os.devnull, "wb") as nothing:
            done = subprocess.run(
                command, cwd=self.home, stdout=nothing, stderr=subprocess.PIPE, check=False, text=True
            )
        assert done.returncode == 0, done.stderr

    def start(self):
        settings = f"-c listen_addresses='' -c fsync=off -k {self.home}"
        self.run("pg_ctl", "-D", self.data, "-w", "-l", self.home / "log", "-o", settings, "start")

    def stop(self):
        self.run("pg_ctl", "-D", self.data, "-w", "-m", "immediate", "stop")

    def database(self, name):
        """The address of a new database."""
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def url(self, name):
        return f"postgresql://ledger@/{name}?host={self.home}"

    def end(self):
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)
