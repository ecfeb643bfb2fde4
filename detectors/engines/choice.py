"""Finds the engine of a frame, or the engine that a caller names."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from os import PathLike, fspath
from typing import Any, Final, Self

import narwhals.stable.v2 as nw
import polars as pl

from detectors.engines.engine import Calls, Engine, Row
from detectors.errors import DetectorError

_BY_NAME: Final = {
    "polars": nw.Implementation.POLARS,
    "duckdb": nw.Implementation.DUCKDB,
    "pyspark": nw.Implementation.PYSPARK,
}
ENGINES: Final = tuple(_BY_NAME)  # for audits of files

_CLASSES: Final = {
    nw.Implementation.POLARS: ("polars", "PolarsEngine"),
    nw.Implementation.PANDAS: ("pandas", "PandasEngine"),
    nw.Implementation.DUCKDB: ("duckdb", "DuckdbEngine"),
    nw.Implementation.PYSPARK: ("spark", "SparkEngine"),
    nw.Implementation.PYSPARK_CONNECT: ("spark", "SparkEngine"),
}


class UnknownEngineError(DetectorError):
    """The frame or the name belongs to an engine that audits do not support."""

    @classmethod
    def of_frame(cls, implementation: str) -> Self:
        return cls(f"Audits run on Polars, pandas, DuckDB and PySpark, not on {implementation}.")

    @classmethod
    def of_name(cls) -> Self:
        return cls(f"Use one of these engines: {', '.join(ENGINES)}.")


class MissingEngineError(DetectorError):
    """The named engine is not installed."""

    def __init__(self, engine: str) -> None:
        package = "'tallystick-server[spark]'" if engine == "pyspark" else engine
        super().__init__(f"The engine {engine} needs a package: pip install {package}")


def is_known(frame: nw.DataFrame[Any] | Calls) -> bool:
    """Check whether audits support the frame's engine."""
    return frame.implementation in _CLASSES


def engine_of(calls: Calls) -> Engine:
    """Return the engine that holds the calls."""
    if not is_known(calls):
        raise UnknownEngineError.of_frame(calls.implementation.name)
    module, name = _CLASSES[calls.implementation]
    engine: Engine = getattr(import_module(f"detectors.engines.{module}"), name)()
    return engine


def fetch(few: Calls) -> list[Row]:
    """Fetch the rows of a small result."""
    return engine_of(few).fetch(few)


def place_beside(calls: Calls, rows: pl.DataFrame) -> Calls:
    """Copy a small frame to the engine that holds the calls, to join it with them."""
    return engine_of(calls).place(rows, calls)


def scan_parquet(source: object, engine: str) -> Calls:
    """Open the Parquet files of a path or pattern on the named engine."""
    if engine not in ENGINES:
        raise UnknownEngineError.of_name()
    if not isinstance(source, str | PathLike):
        raise TypeError("`engine` is for Parquet files: pass their path")
    scanned: Calls = _module_of(engine).scan(fspath(source))
    return scanned


@contextmanager
def scanned_on_spark(urls: Sequence[str], remote: str, master: str) -> Iterator[Calls]:
    """Open Parquet files on Spark, which is at the address of one of the two kinds."""
    module = _module_of("pyspark")
    with module.opened_session(remote, master) as session:
        yield module.scan_all(session, urls)


def _module_of(engine: str) -> Any:
    try:
        return import_module(f"detectors.engines.{_CLASSES[_BY_NAME[engine]][0]}")
    except ImportError as error:
        raise MissingEngineError(engine) from error
