"""The two databases that hold a ledger, each empty for every test."""

import secrets

import pytest

from tests.privacy.ledger.server import Server, programs


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server; without one the tests that need it are skipped, or fail under CI."""
    folder, why = programs()
    if folder is None:
        pytest.skip(why)
    started = Server(folder)
    yield started
    started.end()


@pytest.fixture
def sqlite_url(tmp_path):
    return str(tmp_path / "ledger.sqlite")


@pytest.fixture
def postgres_url(server):
    return server.database(f"t{secrets.token_hex(6)}")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request):
    """The address of an empty place for a ledger."""
    return request.getfixturevalue(f"{request.param}_url")
