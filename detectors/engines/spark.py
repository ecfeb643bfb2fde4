"""Calls as Spark frames, classic or through Spark Connect.

Nothing here runs over all calls in one partition: numbers count within a group, and labels are
numbered by the place that a distributed sort gives them.
"""

from collections.abc import Sequence
from typing import Final

import narwhals.stable.v2 as nw
import polars as pl
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from detectors.engines import times
from detectors.engines.engine import Calls, Engine, Row
from detectors.errors import DetectorError, UnreadableLogError

_DAYS: Final = "unix_date(TRY_CAST({} AS DATE))"
_LOCAL_MICROSECONDS: Final = "timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', ts)"


class SparkUnavailableError(DetectorError):
    """No Spark session, and none can be started."""

    def __init__(self) -> None:
        super().__init__(
            "Spark does not start here: it needs Java 17 or later (on Debian: apt install "
            "default-jre-headless), or SPARK_REMOTE, the address of a Spark Connect server"
        )


def scan(paths: str) -> Calls:
    """On the session that is active, or on a new one: local, unless the environment says where."""
    session = _session()
    try:
        calls: Calls = nw.from_native(session.read.parquet(paths))
        calls.collect_schema()
    except Exception as error:  # Spark's own family differs between classic and Connect
        raise UnreadableLogError("expected one or more Parquet files at that path") from error
    return calls


def _session() -> SparkSession:
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    try:
        return SparkSession.builder.appName("tallystick").getOrCreate()
    except Exception as error:  # of PySpark, of the gateway to Java or of gRPC
        raise SparkUnavailableError from error


class SparkEngine(Engine):
    label_type = nw.Int64

    def place(self, rows: pl.DataFrame, beside: Calls) -> Calls:
        """As an Arrow table: rows of Python's would be read by a Python of the executors' own."""
        session = beside.to_native().sparkSession
        table = rows.cast({pl.selectors.integer(): pl.Int64}).to_arrow()
        placed: Calls = nw.from_native(session.createDataFrame(table))
        return placed

    def fetch(self, few: Calls) -> list[Row]:
        return [row.asDict() for row in few.to_native().collect()]

    def keep(self, calls: Calls) -> Calls:
        """A checkpoint on the executors, in memory and beyond it on disk.

        Cached frames would do but for their plans: each holds those of all before it. What is kept
        goes when nothing refers to it any longer.
        """
        kept: Calls = nw.from_native(calls.to_native().localCheckpoint())
        return kept

    def read_instants(self, table: Calls) -> Calls:
        kind = table.to_native().schema["ts"].dataType
        # A time without a zone is one of UTC, whatever the session's own zone is.
        is_local = isinstance(kind, TimestampNTZType)
        return _with_times(table, _LOCAL_MICROSECONDS if is_local else "unix_micros(ts)")

    def read_times(self, table: Calls) -> Calls:
        is_time = f"ts RLIKE '{times.PATTERN}'"
        return _with_times(table, f"CASE WHEN {is_time} THEN {times.sql('ts', _DAYS)} END")

    def number_labels(self, calls: Calls, name: str, labels: Sequence[str]) -> Calls:
        distinct = calls.to_native().select(*labels).distinct().sort(*labels)
        numbered: Calls = nw.from_native(distinct.withColumn(name, F.monotonically_increasing_id()))
        return self.keep(numbered)


def _with_times(table: Calls, at_us: str) -> Calls:
    native = table.to_native()
    timed: Calls = nw.from_native(native.withColumn("at_us", F.expr(f"CAST({at_us} AS BIGINT)")))
    return timed
