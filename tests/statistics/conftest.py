"""One Spark session for every test that asks for it; without Java those tests fail, they are never skipped."""

import pytest


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A Spark session and the path of its log."""
    from tests.statistics.engines.cluster import start

    with pytest.MonkeyPatch.context() as environment:
        session, log = start(tmp_path_factory.mktemp("spark"), environment)
        yield session, log
        session.stop()


@pytest.fixture(scope="session")
def spark(cluster):
    """A Spark session on two cores."""
    return cluster[0]
