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
def connected(cluster):
    """A session of Spark Connect to the same Spark."""
    from tests.statistics.engines.cluster import connect

    session = connect(cluster[0])
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark(cluster):
    """A Spark session on two cores."""
    return cluster[0]


@pytest.fixture(scope="session")
def distributed(tmp_path_factory):
    """A client of dask.distributed with two worker processes; only as long as it is entered is it Dask's scheduler."""
    import dask
    from distributed import Client, LocalCluster

    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    folder = str(tmp_path_factory.mktemp("dask"))
    with (
        dask.config.set({"distributed.admin.system-monitor.gil.enabled": False}),
        LocalCluster(local_directory=folder, **settings) as workers,
        Client(workers, set_as_default=False) as client,
    ):
        yield client
