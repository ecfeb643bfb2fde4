"""Tables of other libraries as Polars frames: pandas, DuckDB, PySpark, and all that speak Arrow.

They are read, and not computed with: an audit runs on Polars.
"""

from collections.abc import Callable
from importlib import import_module
from os import PathLike, fspath
from typing import Any, Final, Self

import polars as pl

from detectors.engine import Calls
from detectors.errors import DetectorError, UnreadableLogError

ENGINES: Final = ("polars", "duckdb", "pyspark")  # what can read Parquet files
_PACKAGES: Final = {"pyspark": "'tallystick-server[spark]'"}


class UnknownEngineError(DetectorError):
    """The frame is of a library that audits can't read, or nothing of that name reads files."""

    @classmethod
    def of_frame(cls, library: str) -> Self:
        return cls(
            "Audits read frames of Polars, pandas, DuckDB, PySpark and all libraries that speak "
            f"Arrow, but not of {library}."
        )

    @classmethod
    def of_name(cls) -> Self:
        return cls(f"Use one of these engines: {', '.join(ENGINES)}.")


class MissingEngineError(DetectorError):
    """The named engine is not installed."""

    def __init__(self, engine: str) -> None:
        package = _PACKAGES.get(engine, engine)
        super().__init__(f"The engine {engine} needs a package: pip install {package}")


def scan_parquet(source: object, engine: str) -> Calls:
    """Open the Parquet files of a path or pattern with the named engine."""
    if engine not in ENGINES:
        raise UnknownEngineError.of_name()
    if not isinstance(source, str | PathLike):
        raise TypeError("`engine` is for Parquet files: pass their path")
    try:
        scan = {"polars": _scan, "duckdb": _scan_with_duckdb, "pyspark": _scan_with_spark}[engine]
        return scan(fspath(source))
    except ImportError as error:
        raise MissingEngineError(engine) from error


def _scan(path: str) -> Calls:
    frame = pl.scan_parquet(path)
    try:
        frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableLogError("There are no readable Parquet files at that path.") from error
    return frame


def _scan_with_duckdb(path: str) -> Calls:
    import duckdb

    try:
        return pl.DataFrame(duckdb.connect().read_parquet(path)).lazy()
    except duckdb.Error as error:
        raise UnreadableLogError("There are no readable Parquet files at that path.") from error


def _scan_with_spark(path: str) -> Calls:
    spark = import_module("detectors.frames.spark")
    return _from_spark(spark.scan(path))


def find_table(source: object) -> Calls | None:
    """Return the source as a frame of Polars if it is a table, or None."""
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        return source.lazy()
    library = type(source).__module__.partition(".")[0]
    if read := _READERS.get(library):
        return read(source)
    if hasattr(source, "__arrow_c_stream__"):
        return pl.DataFrame(source).lazy()
    if hasattr(source, "columns") and not hasattr(source, "read"):
        raise UnknownEngineError.of_frame(library)
    return None


def _from_pandas(frame: Any) -> Calls:
    """Convert objects to the common type of their values; others stay objects, which are bad."""
    pandas = import_module("pandas")
    if not isinstance(frame, pandas.DataFrame):
        raise TypeError("expected a frame, not another object of pandas")
    columns = {name: frame[name] for name in frame.columns}
    typed = {
        name: column.convert_dtypes() if column.dtype == object else column
        for name, column in columns.items()
    }
    return pl.DataFrame([_read_series(name, column) for name, column in typed.items()]).lazy()


def _read_series(name: str, column: Any) -> pl.Series:
    if column.dtype != object:
        return pl.from_pandas(column, include_index=False).alias(name)
    values = column.tolist()
    if all(isinstance(value, list | tuple) or hasattr(value, "tolist") for value in values):
        return pl.Series(name, [list(value) for value in values], strict=False)
    if any(isinstance(value, bytes) for value in values):
        return pl.Series(name, [each if isinstance(each, bytes) else None for each in values])
    return pl.Series(name, values, pl.Object)


def _from_duckdb(relation: Any) -> Calls:
    return pl.DataFrame(relation).lazy()


def _from_arrow(table: Any) -> Calls:
    if hasattr(table, "scanner"):  # a dataset, which is read a part at a time
        return pl.scan_pyarrow_dataset(table)
    return pl.DataFrame(table).lazy()


def _from_spark(frame: Any) -> Calls:
    return pl.DataFrame(frame.toArrow()).lazy()


_READERS: Final[dict[str, Callable[[Any], Calls]]] = {
    "pandas": _from_pandas,
    "duckdb": _from_duckdb,
    "_duckdb": _from_duckdb,
    "pyarrow": _from_arrow,
    "pyspark": _from_spark,
}
