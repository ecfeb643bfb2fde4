"""Tables of other libraries as Polars frames: pandas, DuckDB, PySpark, and all that speak Arrow.

They are read, and not computed with: an audit runs on Polars.
"""

import os
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import urlsplit

import polars as pl
from polars.io.plugins import register_io_source

from detectors.engine import Calls
from detectors.errors import DetectorError, UnreadableLogError

if TYPE_CHECKING:
    from pyarrow import RecordBatch

ENGINES: Final = ("polars", "duckdb", "pyspark")  # what can read Parquet files
# What DuckDB says of an extension that it lacks and can't download.
_EXTENSION: Final = re.compile(r"extension '(\w+)|the (\w+) extension needs")
_PACKAGES: Final = {"pyspark": "'tallystick-server[spark]'"}


class UnknownEngineError(DetectorError):
    """The frame is of a library that audits can't read, or nothing of that name reads files."""

    @classmethod
    def of_frame(cls, library: str) -> Self:
        return cls(
            "Audits read frames of Polars, pandas, DuckDB, PySpark and all libraries that speak "
            f"Arrow, but not of {library}. Convert it to one of pandas or Arrow first."
        )

    @classmethod
    def of_name(cls) -> Self:
        return cls(f"Use one of these engines: {', '.join(ENGINES)}.")


class MissingEngineError(DetectorError):
    """A package is not installed that reads these files or frames."""

    @classmethod
    def of_name(cls, engine: str) -> Self:
        package = _PACKAGES.get(engine, engine)
        return cls(f"The engine {engine} needs a package: pip install {package}")

    @classmethod
    def of_frame(cls, library: str) -> Self:
        return cls(f"Frames of {library} are read through Arrow: pip install pyarrow")

    @classmethod
    def of_extension(cls, extension: str) -> Self:
        return cls(
            f"DuckDB needs its extension {extension} for this kind of address, and can't load it. "
            f"Run INSTALL {extension} where DuckDB can download it, or read the files with "
            "Polars: leave out `engine`."
        )


def scan_parquet(source: object, engine: str) -> Calls:
    """Open the Parquet files of a path or pattern with the named engine."""
    if engine not in ENGINES:
        raise UnknownEngineError.of_name()
    if not isinstance(source, str | PathLike):
        raise TypeError("`engine` is for Parquet files: pass their path")
    try:
        others = {"duckdb": _scan_with_duckdb, "pyspark": _scan_with_spark}
        return others.get(engine, scan_files)(fspath(source))
    except ImportError as error:
        raise MissingEngineError.of_name(engine) from error


def scan_files(files: str | list[str]) -> Calls:
    """Open the Parquet files of a path or pattern, or those with these paths."""
    # The name of a file may look like a pattern.
    frame = pl.scan_parquet(files, glob=isinstance(files, str) and not os.path.exists(files))
    try:
        frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableLogError("There are no readable Parquet files at that path.") from error
    return frame


def _scan_with_duckdb(path: str) -> Calls:
    import duckdb

    try:
        # Where the bucket is if it is elsewhere than at AWS; DuckDB reads the keys itself.
        bucket: dict[str, str | bool | int | float | list[str]] = {}
        endpoint = urlsplit(os.environ.get("AWS_ENDPOINT_URL", ""))
        if path.startswith("s3://") and endpoint.netloc:
            has_ssl = str(endpoint.scheme == "https").lower()
            bucket = {"s3_endpoint": endpoint.netloc, "s3_use_ssl": has_ssl, "s3_url_style": "path"}
        return _from_arrow(duckdb.connect(config=bucket).read_parquet(path))
    except duckdb.Error as error:
        if (extension := _EXTENSION.search(str(error))) is not None:
            raise MissingEngineError.of_extension(extension[extension.lastindex or 0]) from error
        raise UnreadableLogError("There are no readable Parquet files at that path.") from error


def _scan_with_spark(path: str) -> Calls:
    spark = import_module("detectors.frames.spark")
    return _from_spark(spark.scan(path))


def find_table(source: object) -> Calls | None:
    """Return the source as a frame of Polars if it is a table, or None.

    A stream, such as a relation of DuckDB or a reader of Arrow, can be read only once.
    """
    if isinstance(source, pl.DataFrame | pl.LazyFrame):
        return source.lazy()
    # Other libraries have subclasses of these frames.
    libraries = [kind.__module__.partition(".")[0] for kind in type(source).__mro__]
    try:
        if "pandas" in libraries:
            pandas = import_module("pandas")
            if not isinstance(source, pandas.DataFrame):
                raise TypeError("expected a frame, not another object of pandas")
            import_module("pyarrow")  # without it, Polars reads some columns and fails at others
            columns = ((str(name), column) for name, column in source.items())
            return pl.DataFrame([_read_series(name, column) for name, column in columns]).lazy()
        if "pyspark" in libraries:
            return _from_spark(source)
        if "pyarrow" in libraries or hasattr(source, "__arrow_c_stream__"):
            return _from_arrow(source)
    except ImportError as error:
        raise MissingEngineError.of_frame(libraries[0].removeprefix("_")) from error
    except pl.exceptions.DuplicateError as error:
        raise UnreadableLogError("Each column of a frame needs a different name.") from error
    if hasattr(source, "columns") and not hasattr(source, "read"):
        raise UnknownEngineError.of_frame(libraries[0])
    return None


def _from_arrow(source: Any) -> Calls:
    import pyarrow
    from pyarrow.dataset import Dataset

    if isinstance(source, Dataset):
        return pl.scan_pyarrow_dataset(source)
    if isinstance(source, pyarrow.Table | pyarrow.RecordBatch):
        return pl.DataFrame(source).lazy()
    try:
        reader = pyarrow.RecordBatchReader.from_stream(source)
    except (TypeError, pyarrow.ArrowInvalid) as error:
        raise TypeError("expected a frame, not a column or a value") from error
    # Scan a part at a time; a stream that has ended must not be taken for an empty one.
    unread: list[Iterable[RecordBatch]] = [reader]

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, most: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        if not unread:
            raise RuntimeError("a stream can be read only once")
        batches, is_empty = unread.pop(), True
        for batch in batches:
            is_empty = is_empty and not batch.num_rows
            frame = pl.DataFrame(batch).head(batch.num_rows if most is None else most)
            most = None if most is None else most - frame.height
            frame = frame if columns is None else frame.select(columns)
            yield frame if predicate is None else frame.filter(predicate)
            if most == 0:
                return
        if is_empty:
            unread.append(())

    return register_io_source(read, schema=pl.DataFrame(reader.schema.empty_table()).schema)


def _read_series(name: str, column: Any) -> pl.Series:
    typed = column.convert_dtypes() if column.dtype == object else column
    if typed.dtype != object:
        return cast("pl.Series", pl.from_pandas(typed)).alias(name)
    values = column.where(column.notna(), None).tolist()
    lists = [list(each) if hasattr(each, "tolist") else each for each in values]
    try:
        return pl.Series(name, lists)
    except (TypeError, pl.exceptions.PolarsError):
        return pl.Series(name, values, pl.Object)


def find_spark_frame(source: object, engine: str | None) -> Any | None:
    """Return the source as a frame of Spark if it is one, or files that Spark reads, or None."""
    if engine == "pyspark" and isinstance(source, str | PathLike):
        try:
            return import_module("detectors.frames.spark").scan(fspath(source))
        except ImportError as error:
            raise MissingEngineError.of_name(engine) from error
    has_rows = any(kind.__module__.startswith("pyspark.") for kind in type(source).__mro__)
    return source if engine is None and has_rows and hasattr(source, "mapInArrow") else None


def _from_spark(frame: Any) -> Calls:
    if not hasattr(frame, "toArrow"):
        raise TypeError("expected a frame, not another object of PySpark")
    return pl.DataFrame(frame.toArrow()).lazy()
