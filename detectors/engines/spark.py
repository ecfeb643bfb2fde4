"""Calls as Spark frames, classic or through Spark Connect.

Nothing here needs all calls in one partition: calls are numbered within a group, and labels by a
distributed sort.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

import narwhals.stable.v2 as nw
import polars as pl
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from detectors.engines import times
from detectors.engines.engine import NO_LEVEL, Calls, Engine, Row
from detectors.errors import DetectorError, UnreadableLogError
from detectors.formats.columns import HASHES

_DAYS: Final = "unix_date(TRY_CAST({} AS DATE))"
_LOCAL_MICROSECONDS: Final = "timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', ts)"


# A session on this machine listens on no other address.
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}
_CONNECT_PORT: Final = 15_002
_CONNECT_SECONDS: Final = 5.0


class SparkUnavailableError(DetectorError):
    """There is no Spark session, and none can be started."""

    def __init__(self) -> None:
        super().__init__(
            "Spark doesn't start. Install Java 17 or later (on Debian: apt install "
            "default-jre-headless), or set SPARK_REMOTE to the address of a Spark Connect server."
        )


class SparkUnreachableError(DetectorError):
    """The Spark Connect server can't be used from here."""

    def __init__(self) -> None:
        super().__init__(
            "The Spark Connect server of SPARK_REMOTE can't be reached. Check the address, and "
            "install 'pyspark[connect]' in the server's version."
        )


def scan(paths: str) -> Calls:
    """Read on the active session, or on a new one: local, unless SPARK_REMOTE is set."""
    session = _session()
    try:
        calls: Calls = nw.from_native(session.read.parquet(paths))
        calls.collect_schema()
    except Exception as error:  # classic and Connect raise different errors
        raise UnreadableLogError("There are no readable Parquet files at that path.") from error
    return calls


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
            (address.hostname or "", address.port or _CONNECT_PORT), _CONNECT_SECONDS
        ).close()
        return SparkSession.builder.appName("tallystick").remote(remote).getOrCreate()
    except Exception as error:  # from the network, PySpark or gRPC
        raise SparkUnreachableError from error


def _start(master: str) -> SparkSession:
    builder = SparkSession.builder.appName("tallystick").master(master)
    for name, value in _LOCAL.items() if master.startswith("local") else ():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # from PySpark, or the gateway to Java
        raise SparkUnavailableError from error


def scan_all(session: SparkSession, urls: Sequence[str]) -> Calls:
    """Read files that may lack different columns."""
    calls: Calls = nw.from_native(session.read.option("mergeSchema", "true").parquet(*urls))
    return calls


def _session() -> SparkSession:
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    try:
        return SparkSession.builder.appName("tallystick").getOrCreate()
    except Exception as error:  # from PySpark, the gateway to Java, or gRPC
        raise SparkUnavailableError from error


class SparkEngine(Engine):
    label_type = nw.Int64

    def place(self, rows: pl.DataFrame, beside: Calls) -> Calls:
        """Copy as an Arrow table: Python rows would need Python on the executors."""
        session = beside.to_native().sparkSession
        table = rows.cast({pl.selectors.integer(): pl.Int64}).to_arrow()
        placed: Calls = nw.from_native(session.createDataFrame(table))
        return placed

    def fetch(self, few: Calls) -> list[Row]:
        return [row.asDict() for row in few.to_native().collect()]

    def keep(self, calls: Calls) -> Calls:
        """Store the calls in a checkpoint on the executors, in memory and on disk.

        Cached frames would keep the plans of all frames before them. Spark frees a checkpoint when
        nothing refers to it.
        """
        kept: Calls = nw.from_native(calls.to_native().localCheckpoint())
        return kept

    def read_instants(self, table: Calls) -> Calls:
        kind = table.to_native().schema["ts"].dataType
        # A time without a zone is in UTC, whatever the session's time zone.
        is_local = isinstance(kind, TimestampNTZType)
        return _with_times(table, _LOCAL_MICROSECONDS if is_local else "unix_micros(ts)")

    def read_times(self, table: Calls) -> Calls:
        read = times.text_sql("ts", _DAYS, "{0} RLIKE '{1}'")
        return _with_times(times.with_plain_texts(table), read)

    def join_levels(self, table: Calls) -> Calls:
        return _with_levels(table, F.array_join(HASHES, " ", NO_LEVEL))

    def write_digits(self, table: Calls) -> Calls:
        return _with_levels(table, F.lower(F.hex(HASHES)))

    def number_labels(self, calls: Calls, name: str, labels: Sequence[str]) -> Calls:
        distinct = calls.to_native().select(*labels).distinct().sort(*labels)
        numbered: Calls = nw.from_native(distinct.withColumn(name, F.monotonically_increasing_id()))
        return self.keep(numbered)


def _with_levels(table: Calls, levels: Column) -> Calls:
    replaced: Calls = nw.from_native(table.to_native().withColumn(HASHES, levels))
    return replaced


def _with_times(table: Calls, at_us: str) -> Calls:
    native = table.to_native()
    timed: Calls = nw.from_native(native.withColumn("at_us", F.expr(f"CAST({at_us} AS BIGINT)")))
    return timed
