"""A caller's own dataframe into the frame of calls: any engine that Narwhals knows.

Columns are checked whole, as expressions. Only rows that fail are looked at one by one, to say
why, by the same definition of a record as everywhere else.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import narwhals.stable.v2 as nw
import polars as pl
import polars.selectors as cs

from detectors.contract import (
    FIRST_INSTANT,
    LAST_INSTANT,
    MAX_COUNT,
    MAX_LABEL_LENGTH,
    MAX_LATENCY_MS,
    RECORD_FIELDS,
    REQUIRED_FIELDS,
    InvalidRow,
)
from detectors.errors import UnreadableLogError
from detectors.formats.columns import COLUMNS, COUNTS, SERVICE_TIERS
from detectors.formats.fields import LOG_RECORD, read_moment, read_record
from detectors.formats.problems import Offender, contract_error, describe, shown_name, unknown

# Rust's regular expressions have neither \Z nor surrogates; texts of a frame hold none anyway.
_CONTROL: Final = r"[\x00-\x1f\x7f-\x9f]"
_PROVIDER: Final = r"\A[a-z0-9][a-z0-9._-]{0,63}\z"
_PREFIX_HASH: Final = r"\A[0-9a-fA-F]{64}\z"
_INSTANT: Final = pl.Datetime("us", "UTC")

Native = nw.DataFrame[Any] | nw.LazyFrame[Any]


def find_frame(source: object) -> Native | None:
    """The source as a Narwhals frame, if it is a frame of any engine."""
    frame = nw.from_native(source, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None


def read_table(frame: Native) -> tuple[pl.DataFrame, list[InvalidRow], int]:
    """The columns of the valid rows, the invalid rows counted from 1, and the number of rows.

    Raises
    ------
    ContractError
        A column is outside the record schema; `service_tier` may stand beside it.
    UnreadableLogError
        A required column is missing.
    """
    _check_columns(frame.collect_schema().names())
    table: pl.DataFrame = frame.lazy().collect("polars").to_native()
    table = table.rename(str.lower).with_columns(cs.float().fill_nan(None))
    table = _with_instants(table)
    given = {name: _given(name, table.schema.get(name)) for name in COLUMNS}
    checked = table.select(
        *(value.alias(name) for name, (value, _) in given.items()),
        bad=pl.any_horizontal(*(bad.fill_null(False) for _, bad in given.values())),
    )
    bad = checked["bad"]
    rows = bad.arg_true()
    invalid = [
        InvalidRow(row + 1, _reason(values))
        for row, values in zip(rows, table[rows].iter_rows(named=True), strict=True)
    ]
    return checked.drop("bad").filter(~bad), invalid, table.height


def _check_columns(names: Sequence[str]) -> None:
    strangers = [
        Offender("frame", unknown(shown_name(name, f"column {number}")))
        for number, name in enumerate(names, 1)
        if name.lower() not in COLUMNS
    ]
    if strangers:
        raise contract_error(strangers)
    absent = [name for name in REQUIRED_FIELDS if name not in map(str.lower, names)]
    if absent:
        raise UnreadableLogError(f"expected a frame that names {', '.join(absent)} too")
    if len({name.lower() for name in names}) < len(names):
        raise UnreadableLogError("expected a frame that names each column once")


def _with_instants(table: pl.DataFrame) -> pl.DataFrame:
    """The table with `ts` as instants in UTC, null where there is none to be read."""
    instants = table["ts"]
    if isinstance(instants.dtype, pl.Datetime):
        utc = instants.dtype.time_zone is None
        column = instants.dt.replace_time_zone("UTC") if utc else instants
        return table.with_columns(column.cast(_INSTANT, strict=False).alias("instant"))
    read = pl.Series("instant", [_find_moment(value) for value in instants], _INSTANT)
    return table.with_columns(read)


def _find_moment(value: object) -> object:
    try:
        return read_moment(value)
    except (ValueError, OverflowError):
        return None


def _given(name: str, kind: pl.DataType | None) -> tuple[pl.Expr, pl.Expr]:
    """The column's values in the schema of calls, and where they are wrong."""
    if name == "ts":
        instant = pl.col("instant")
        within = (instant >= FIRST_INSTANT) & (instant < LAST_INSTANT)
        return instant, instant.is_null() | ~within
    if name == "latency_ms":
        return _number(name, kind)
    if name == "service_tier":
        return _tier(kind), pl.lit(False)
    return _count(name, kind) if name in COUNTS else _label(name, kind)


def _number(name: str, kind: pl.DataType | None) -> tuple[pl.Expr, pl.Expr]:
    if kind is None:
        return pl.lit(None, pl.Float64), pl.lit(False)
    if not kind.is_numeric():
        return pl.lit(None, pl.Float64), pl.col(name).is_not_null()
    value = pl.col(name).cast(pl.Float64)
    return value, ~value.is_between(0, MAX_LATENCY_MS)


def _count(name: str, kind: pl.DataType | None) -> tuple[pl.Expr, pl.Expr]:
    """Whole floats are integers too: so pandas keeps integers beside missing values."""
    if kind is None:
        return pl.lit(0, pl.Int64), pl.lit(False)
    column = pl.col(name)
    absent = column.is_null() if name in REQUIRED_FIELDS else pl.lit(False)
    if not kind.is_numeric():
        return pl.lit(0, pl.Int64), column.is_not_null() | absent
    value = column.cast(pl.Int64, strict=False)
    wrong = column.is_not_null() & (value.is_null() | (value != column))
    return value.fill_null(0), absent | wrong | ~value.is_between(0, MAX_COUNT)


def _label(name: str, kind: pl.DataType | None) -> tuple[pl.Expr, pl.Expr]:
    if kind is None:
        return pl.lit(""), pl.lit(False)
    column = pl.col(name)
    if kind not in (pl.String, pl.Categorical, pl.Enum):
        empty = column.is_null() if name in REQUIRED_FIELDS else pl.lit(False)
        return pl.lit(""), column.is_not_null() | empty
    text = column.cast(pl.String).fill_null("")
    if name == "provider":
        return text, ~text.str.contains(_PROVIDER)
    if name == "prefix_hash":
        return text.str.to_lowercase(), (text != "") & ~text.str.contains(_PREFIX_HASH)
    wrong = (text.str.len_chars() > MAX_LABEL_LENGTH) | text.str.contains(_CONTROL)
    return text, wrong | (text == "") if name == "model" else wrong


def _tier(kind: pl.DataType | None) -> pl.Expr:
    """What is not priced apart, a vendor's word for its standard tier say, is the standard one."""
    if kind is None:
        return pl.lit("")
    column = pl.col("service_tier").cast(pl.String, strict=False)
    return pl.when(column.is_in(SERVICE_TIERS)).then(column).otherwise(pl.lit(""))


def _reason(values: Mapping[str, Any]) -> str:
    given = {
        name: _plain(name, value)
        for name, value in values.items()
        if value is not None and name in RECORD_FIELDS
    }
    problems = read_record(given, LOG_RECORD)
    return describe(problems) if isinstance(problems, list) else "no valid call"


def _plain(name: str, value: Any) -> Any:
    """The value as the definition of a record knows it: whole numbers as integers."""
    if isinstance(value, Decimal):
        value = float(value)
    return int(value) if name in COUNTS and value == _floor(value) else value


def _floor(value: Any) -> Any:
    return value // 1 if isinstance(value, float) else None
