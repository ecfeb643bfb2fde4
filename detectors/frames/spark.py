"""Sessions of Spark, classic or through Spark Connect, and the files that they open."""

import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession

from detectors.errors import DetectorError, UnreadableLogError

# A session on this machine listens on no other address.
NO_FILE_SYSTEM: Final = re.compile(
    r"S3AFileSystem|No FileSystem for scheme|UNSUPPORTED_FILE_SYSTEM"
)
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}
CONNECT_PORT: Final = 15_002
CONNECT_SECONDS: Final = 5.0


class SparkUnavailableError(DetectorError):
    """There is no Spark session, and none can be started."""

    def __init__(self) -> None:
        super().__init__(
            "Spark doesn't start. Install Java 17 or later (on Debian: apt install "
            "default-jre-headless), or set SPARK_REMOTE to the address of a Spark Connect server."
        )


class SparkUnreachableError(DetectorError):
    """The Spark Connect server, or the master of the cluster, can't be used from here."""

    def __init__(self, is_remote: bool = True) -> None:
        super().__init__(
            "The Spark Connect server of SPARK_REMOTE can't be reached. Check the address, and "
            "install 'pyspark[connect]' in the server's version."
            if is_remote
            else "The master of the Spark cluster (SPARK_MASTER) can't be reached. Check its "
            "address, and whether it runs."
        )


class NoFileSystemError(DetectorError):
    """Spark lacks the library that reads addresses of this kind."""

    def __init__(self) -> None:
        super().__init__(
            "Spark can't read this kind of address. For s3://, add the package "
            "org.apache.hadoop:hadoop-aws in the version of Spark's Hadoop (spark.jars.packages), "
            "or read the files with Polars: leave out `engine`."
        )


def scan(paths: str) -> DataFrame:
    """Read on the active session, or on a new one: local, unless SPARK_REMOTE is set."""
    session = _session()
    try:
        try:
            frame = session.read.parquet(paths)
            frame.schema  # noqa: B018 - reads the files' footers
        except Exception as error:
            # Only some platforms call Hadoop's library for S3 by the name of the others.
            if not paths.startswith("s3://") or not NO_FILE_SYSTEM.search(str(error)):
                raise
            frame = session.read.parquet(paths.replace("s3://", "s3a://", 1))
            frame.schema  # noqa: B018
        return frame
    except Exception as error:  # classic and Connect raise different errors
        if NO_FILE_SYSTEM.search(str(error)):
            raise NoFileSystemError from error
        raise UnreadableLogError("There are no readable Parquet files at that path.") from error


@contextmanager
def opened_session(remote: str, master: str) -> Iterator[SparkSession]:
    """Yield the active session, or a new one at an address that is stopped at the end.

    Parameters
    ----------
    remote : str
        The address of a Spark Connect server; empty: a session of `master`.
    master : str
        The address of a cluster, or `local[2]` for two cores of this machine.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    session = _connect(remote) if remote else _start(master)
    try:
        yield session
    finally:
        session.stop()


def _connect(remote: str) -> SparkSession:
    address = urlsplit(remote)
    try:
        # PySpark would try for ten minutes.
        socket.create_connection(
            (address.hostname or "", address.port or CONNECT_PORT), CONNECT_SECONDS
        ).close()
        return SparkSession.builder.appName("tallystick").remote(remote).getOrCreate()
    except Exception as error:  # from the network, PySpark or gRPC
        raise SparkUnreachableError from error


def is_remote(session: object) -> bool:
    """Check whether a session, or a frame, is one of Spark Connect."""
    return ".connect." in type(session).__module__


def use_own_python(session: SparkSession) -> None:
    """Let a session on this machine run the Python of this process, unless another is set."""
    if is_remote(session) or "PYSPARK_PYTHON" in os.environ:
        return
    context = session.sparkContext
    is_local = str(context.master).startswith("local")
    if is_local and context.getConf().get("spark.pyspark.python") is None:
        context.pythonExec = sys.executable


def _start(master: str) -> SparkSession:
    if master.startswith("spark://"):
        # One of the standalone masters must answer: Spark would try for a minute.
        for address in master.removeprefix("spark://").split(","):
            host, _, port = address.rpartition(":")
            try:
                socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
                break
            except (OSError, ValueError) as error:
                reason: Exception = error
        else:
            raise SparkUnreachableError(is_remote=False) from reason
    builder = SparkSession.builder.appName("tallystick").master(master)
    for name, value in _LOCAL.items() if master.startswith("local") else ():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # from PySpark, or the gateway to Java
        raise SparkUnavailableError from error


def scan_all(session: SparkSession, urls: Sequence[str]) -> DataFrame:
    """Read files that may lack different columns."""
    return session.read.option("mergeSchema", "true").parquet(*urls)


def _session() -> SparkSession:
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    try:
        return SparkSession.builder.appName("tallystick").getOrCreate()
    except Exception as error:  # from PySpark, the gateway to Java, or gRPC
        raise SparkUnavailableError from error
