"""The same calls as a frame of every library that audits read."""

import os
import shutil
from collections.abc import Callable, Iterable
from datetime import UTC
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import msgspec
import polars as pl
import pytest

from detectors.contract import UNITS, UsageRecord
from detectors.formats.columns import TABLE_FIELDS
from detectors.frames import CALLS, OPTIONAL_CALLS
from tests.lazily import duckdb, pyarrow_dataset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDS_JAVA = pytest.mark.skipif(
    not shutil.which("java"), reason="Spark: there is no java on the PATH"
)


def as_polars(records: Iterable[UsageRecord]) -> pl.DataFrame:
    """One row a record, absent values null."""
    rows = [msgspec.structs.asdict(record) for record in records]
    kinds = dict(CALLS) | dict(OPTIONAL_CALLS)
    schema = {name: kinds[name] for name in TABLE_FIELDS if name not in UNITS}
    return pl.DataFrame([row | {"ts": row["ts"].astimezone(UTC)} for row in rows], schema)


# Nothing runs long enough to be worth a second compiler, many threads that collect, or verifying
# what is in the packages of Spark.
SMALL_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
SMALL_SPARK = {
    "spark.driver.extraJavaOptions": SMALL_JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Compiling a query takes longer than some hundred rows do.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Nor is it worth looking for what follows from filters, or checking and printing plans.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.maxPlanStringLength": "100",
    "spark.sql.maxToStringFields": "1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
}


@cache
def spark() -> "SparkSession":
    """One small session for all tests of a process, whose frames are audited on executors."""
    from pyspark.sql import SparkSession

    from detectors.distributed.spark import auditing

    patch.object(auditing, "GATHERED_BYTES", 0).start()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").config("spark.default.parallelism", "4")
    for name, value in SMALL_SPARK.items():
        builder = builder.config(name, value)
    return (
        builder.config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "Asia/Tokyo")
        .getOrCreate()
    )


def _on_spark(frame: pl.DataFrame) -> Any:
    # By default, Spark takes times without a zone for instants of the session's zone.
    conf, name = spark().conf, "spark.sql.timestampType"
    conf.set(name, "TIMESTAMP_NTZ")
    try:
        return spark().createDataFrame(frame.to_arrow())
    finally:
        conf.unset(name)


def _on_duckdb(frame: pl.DataFrame) -> Any:
    return duckdb.connect().from_arrow(frame.to_arrow())


INPUTS: dict[str, Callable[[pl.DataFrame], Any]] = {
    "polars": lambda frame: frame,
    "polars lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "duckdb": _on_duckdb,
    "pyspark": _on_spark,
    "pandas objects": lambda frame: frame.to_pandas().astype(object),
    "pandas nullable": lambda frame: frame.to_pandas().convert_dtypes(),
    "pandas arrow": lambda frame: frame.to_pandas(use_pyarrow_extension_array=True),
    "arrow": lambda frame: frame.to_arrow(),
    "reader": lambda frame: frame.to_arrow().to_reader(max_chunksize=7),
    "dataset": lambda frame: pyarrow_dataset.dataset(frame.to_arrow()),
}
LOCAL_INPUTS = ["polars", "polars lazy", "pandas", "duckdb"]
# Other types of the same libraries, and tables of Arrow.
ARROW_INPUTS = [name for name in INPUTS if name not in (*LOCAL_INPUTS, "pyspark")]
SPARK_UNDER_STRESS = [
    *LOCAL_INPUTS,
    pytest.param("pyspark", marks=[NEEDS_JAVA, pytest.mark.stress]),
]
EVERY_INPUT = [
    pytest.param(name, marks=[NEEDS_JAVA] if name == "pyspark" else []) for name in INPUTS
]
