"""Checks the columns of a caller's dataframe as expressions."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, cast

import polars as pl

from detectors.contract import (
    LEVEL_DIGITS,
    LEVELS,
    MAX_COUNT,
    MAX_LABEL_LENGTH,
    MAX_LATENCY_MS,
    MAX_REPORTED_USD,
    REQUIRED_FIELDS,
    SECONDS,
    V2_FIELDS,
    InvalidRow,
)
from detectors.engine import Calls, compose_labels, fetch
from detectors.engine.categories import REPEATED
from detectors.engine.levels import LEVEL_COLUMNS, LEVELS_LIST, number_lists
from detectors.formats.columns import (
    COLUMNS,
    COUNTS,
    HASHES,
    OPTIONAL_COLUMNS,
    OPTIONAL_HASHES,
    OPTIONAL_NUMBERS,
    REPORTED,
    UNKNOWN,
    WRITTEN_LABELS,
    empty_value,
    present_columns,
)
from detectors.formats.fields import SERVICE_TIERS
from detectors.formats.json_logs.usage.reader import NO_TIER_NAME, STANDARD_TIERS, TIERS_OF_OTHERS
from detectors.formats.moments import (
    FIRST_MICROSECOND,
    LAST_MICROSECOND,
    NANOSECONDS,
    NO_TIME,
    UNITS,
    find_microseconds,
)
from detectors.frames.table_problems import (
    NEVER,
    CheckedColumn,
    describe_problems,
    encode,
    is_invalid,
    problem_columns,
)
from detectors.frames.usage_log import FIRST_INVALID

_CONTROL: Final = r"[\x00-\x1f\x7f-\x9f]"
_NO_PROVIDER: Final = r"^[._-]|[^a-z0-9._-]"
_NO_HASH: Final = "[^0-9a-fA-F]"
_PROVIDER_LENGTH: Final = 64
_HASH_LENGTH: Final = 64
_COUNTS: Final = (*COUNTS, *OPTIONAL_NUMBERS)
_HASHES: Final = ("prefix_hash", *OPTIONAL_HASHES)
_MOST: Final = {
    "latency_ms": MAX_LATENCY_MS,
    REPORTED: MAX_REPORTED_USD,
    **dict.fromkeys(SECONDS, MAX_COUNT),
}
_LEVEL: Final = f"[0-9a-f]{{{LEVEL_DIGITS}}}"
_LEVELS_TEXT: Final = f"^{_LEVEL}(?: ?{_LEVEL}){{0,{len(LEVELS) - 1}}}$"
_CHOICES: Final = {field.name: field.choices for field in V2_FIELDS if field.choices}
# These exist in checked calls only if some call has a value.
SPARSE: Final = ("latency_ms", "service_tier", *OPTIONAL_COLUMNS)


def with_problems(table: Calls) -> Calls:
    """Return the columns of checked calls, and the numbers of `table_problems`.

    Columns of checked calls are those of a frame of calls, with the time as the number `at_us`.
    """
    frame = table.collect()
    if frame.schema.get(HASHES) == LEVELS_LIST:
        frame = number_lists(frame)
    composed = compose_labels(frame, WRITTEN_LABELS)
    # Microseconds since 1970 in UTC; null or outside 2000 to 2100 for no time.
    kind, ts = composed.schema["ts"], pl.col("ts")
    if isinstance(kind, pl.Datetime):
        # Without a time zone, times are in UTC.
        at = ts.to_physical() if kind.time_unit == "us" else ts.dt.timestamp("us").cast(pl.Int64)
        composed = composed.with_columns(at.alias("at_us"))
    elif kind.is_integer():
        composed = composed.with_columns(_scale(ts, _whole).alias("at_us"))
    elif kind.is_numeric():
        numbers = composed.with_columns(ts.cast(pl.Float64).alias("ts"))
        composed = numbers.with_columns(_scale(ts, _fractional).alias("at_us"))
    else:
        times = pl.Series("at_us", map(find_microseconds, composed["ts"]), pl.Int64)
        composed = composed.with_columns(times)
    table, schema = composed.lazy(), composed.schema
    given = [*schema.names(), *([UNKNOWN] if _is_text(schema.get("service_tier")) else [])]
    names = [name for name in present_columns(given) if name in given or name in COLUMNS]
    fine = {name for name in names if name in schema and _is_fine(composed, name)}
    levels = [name for name in LEVEL_COLUMNS if name in given]
    columns = {
        name: _read_fine(composed[name]) if name in fine else _read(name, schema.get(name), levels)
        for name in names
    }
    row = [name for name in schema.names() if name == "row"]
    values = (
        column.value.alias("at_us" if name == "ts" else name)
        for name, column in columns.items()
        if name in given or name not in SPARSE
    )
    return table.select(*row, *values, *levels, *encode(columns))


def count_rows(checked: Calls) -> Calls:
    """Count the rows of each combination of problems, and those with a value in sparse columns."""
    known = checked.collect_schema().names()
    names, problems = [name for name in SPARSE if name in known], problem_columns(known)
    has_value = []
    for name in names:
        is_nullable = name in ("latency_ms", REPORTED)
        is_given = ~pl.col(name).is_null() if is_nullable else pl.col(name) != empty_value(name)
        if name == HASHES and LEVEL_COLUMNS[0] in known:
            is_given = pl.col(LEVEL_COLUMNS[0]) > 0
        has_value.append(is_given.cast(pl.Int64).alias(name))
    grouped = checked.select(*problems, *has_value).group_by(*problems)
    return grouped.agg(pl.len().alias("rows"), *(pl.col(name).sum() for name in names))


def _scale(ts: pl.Expr, convert: Callable[[pl.Expr, int], pl.Expr]) -> pl.Expr:
    """Convert Unix times in any unit to microseconds; `NO_TIME` outside 2000 to 2100."""
    first, last = FIRST_MICROSECOND * NANOSECONDS, LAST_MICROSECOND * NANOSECONDS
    is_nano = (ts >= first) & (ts < last)
    nanoseconds = pl.when(is_nano).then(ts).otherwise(pl.lit(0)).cast(pl.Int64)
    scaled = pl.when(is_nano).then(nanoseconds // NANOSECONDS).otherwise(pl.lit(NO_TIME, pl.Int64))
    for unit in UNITS:
        is_unit = _is_within(ts, unit)
        time = pl.when(is_unit).then(ts).otherwise(pl.lit(0))
        scaled = pl.when(is_unit).then(convert(time, unit)).otherwise(scaled)
    return scaled


def _whole(time: pl.Expr, unit: int) -> pl.Expr:
    return time.cast(pl.Int64) * unit


def _fractional(time: pl.Expr, unit: int) -> pl.Expr:
    """Round half to even as Python does."""
    exact = time * float(unit)
    down = exact.floor()
    rest = exact - down
    is_up = (rest > 0.5) | ((rest == 0.5) & ((down / 2).floor() * 2 != down))
    return down.cast(pl.Int64) + is_up.cast(pl.Int64)


def _is_within(time: pl.Expr, units: int) -> pl.Expr:
    return (time >= FIRST_MICROSECOND // units) & (time < LAST_MICROSECOND // units)


def _is_fine(frame: pl.DataFrame, name: str) -> bool:
    """Check whether all values of a column are valid, and as checked calls have them.

    Most columns are fine, and looking takes a fifth of the time of checking each row.
    """
    column = frame["at_us" if name == "ts" else name]
    is_number = name == "ts" or name in _COUNTS or name in _MOST
    if not is_number and column.dtype in (pl.String, pl.Categorical):
        if name == "request_id" and _are_plain(column):
            return True
        labels = column.unique() if column.dtype == pl.Categorical else column
        value, is_fine = _label(name, pl.String())
        is_same = is_fine & (value == pl.col(name))
        return bool(labels.cast(pl.String).to_frame(name).select(is_same.all()).item())
    if not is_number or name in _MOST or not column.dtype.is_integer():
        return False
    first, last = (FIRST_MICROSECOND, LAST_MICROSECOND - 1) if name == "ts" else (0, MAX_COUNT)
    low, high = cast("tuple[int | None, int | None]", (column.min(), column.max()))
    if low is None or high is None:
        return name != "ts"
    return first <= low and high <= last and not (name == "ts" and column.has_nulls())


def _are_plain(texts: pl.Series) -> bool:
    """Check whether texts are short and of printable ASCII only.

    All bytes together take a third of the time that a search in each text takes.
    """
    if texts.dtype != pl.String or (texts.str.len_bytes() > MAX_LABEL_LENGTH).any():
        return False
    codes = texts.cast(pl.Binary).cast(pl.List(pl.UInt8)).explode()
    low, high = cast("tuple[int | None, int | None]", (codes.min(), codes.max()))
    return low is None or high is None or (low >= ord(" ") and high <= ord("~"))


def _read_fine(column: pl.Series) -> CheckedColumn:
    """Read a column whose values are all valid, so that only absent ones are left to find."""
    name = column.name
    if name == "ts":
        return CheckedColumn(pl.col("at_us"), NEVER, NEVER)
    value = pl.col(name)
    if column.dtype.is_integer():
        value = value.cast(pl.Int64)
    if not column.has_nulls():
        return CheckedColumn(value, NEVER, NEVER)
    is_missing = pl.col(name).is_null() if name in REQUIRED_FIELDS else NEVER
    return CheckedColumn(value.fill_null(empty_value(name)), NEVER, is_missing)


def _read(name: str, kind: pl.DataType | None, numbers: Sequence[str]) -> CheckedColumn:
    if name == UNKNOWN:
        # A tier that we don't know, as files have it: as the name of an unknown field.
        tier, no_name = _tier(), pl.lit("service_tier")
        is_known = tier.is_in((*STANDARD_TIERS, *SERVICE_TIERS))
        named = pl.concat_str([pl.lit("service_tier."), tier])
        named = pl.when(tier.str.contains(NO_TIER_NAME)).then(no_name).otherwise(named)
        unknown = pl.when(~is_known).then(named).otherwise(pl.lit(""))
        return CheckedColumn(unknown, NEVER, NEVER)
    if kind is None:
        absent = _absent(name).cast(pl.Categorical()) if name in REPEATED else _absent(name)
        return CheckedColumn(absent, NEVER, NEVER)
    column, is_absent = pl.col(name), pl.col(name).is_null()
    if name == HASHES and numbers:  # of lists, which are valid or not
        return CheckedColumn(column, ~column & ~is_absent, NEVER, numbers)
    if kind.is_float():
        is_absent = is_absent | column.is_nan().fill_null(value=False)
    if name == "ts":
        value, is_fine = pl.col("at_us"), _is_within(pl.col("at_us"), 1)
    elif name in _COUNTS or name in _MOST:
        value, is_fine = _number(name, kind)
    else:
        value, is_fine = _label(name, kind)
    is_bad = ~is_fine.fill_null(value=False) & ~is_absent
    is_missing = is_absent if name in REQUIRED_FIELDS else NEVER
    return CheckedColumn(value, is_bad, is_missing)


def _number(name: str, kind: pl.DataType) -> tuple[pl.Expr, pl.Expr]:
    """Check a number; whole floats are integers, as pandas writes them beside missing values."""
    if not kind.is_numeric():
        return _absent(name), pl.lit(value=False)
    value = pl.col(name) if kind.is_integer() else pl.col(name).cast(pl.Float64)
    if name in _MOST:
        value = value.cast(pl.Float64)
        is_fine = (value >= 0) & (value <= _MOST[name])
        valid = pl.when(is_fine).then(value)
        return valid.otherwise(pl.lit(0.0)) if name in SECONDS else valid, is_fine
    is_fine = (value >= 0) & (value <= MAX_COUNT)
    if not kind.is_integer():
        is_fine = is_fine & (value.floor() == value)
    return pl.when(is_fine).then(value).otherwise(pl.lit(0)).cast(pl.Int64), is_fine


def _absent(name: str) -> pl.Expr:
    if name in ("latency_ms", REPORTED):
        return pl.lit(None, pl.Float64)
    if name in SECONDS:
        return pl.lit(0.0)
    return pl.lit(0, pl.Int64) if name in _COUNTS else pl.lit("")


def _label(name: str, kind: pl.DataType) -> tuple[pl.Expr, pl.Expr]:
    if name == "service_tier":
        tier = _tier() if _is_text(kind) else pl.lit("")
        priced = pl.when(tier.is_in(SERVICE_TIERS)).then(tier).otherwise(pl.lit(""))
        return priced, pl.lit(value=True)
    if not _is_text(kind):
        return pl.lit(""), pl.lit(value=False)
    text = pl.col(name).cast(pl.String).fill_null("")
    length = text.str.len_chars()
    if name == "provider":
        text = text.str.to_lowercase()
        is_fine = (length > 0) & (length <= _PROVIDER_LENGTH) & ~text.str.contains(_NO_PROVIDER)
        return text, is_fine
    if name == HASHES:
        is_fine = text.str.contains(_LEVELS_TEXT) | (length == 0)
        return text.str.replace_all(" ", "", literal=True), is_fine
    if name in _CHOICES:
        return text, text.is_in(("", *_CHOICES[name]))
    if name in _HASHES:
        is_fine = (length == _HASH_LENGTH) & ~text.str.contains(_NO_HASH) | (length == 0)
        return text.str.to_lowercase(), is_fine
    is_fine = (length <= MAX_LABEL_LENGTH) & ~text.str.contains(_CONTROL)
    return text, is_fine & (length > 0) if name == "model" else is_fine


def _is_text(kind: pl.DataType | None) -> bool:
    return isinstance(kind, pl.String | pl.Categorical | pl.Enum)


def _tier() -> pl.Expr:
    """Return the service tier under the name that a record has for it."""
    tier = pl.col("service_tier").cast(pl.String).fill_null("").str.to_lowercase()
    for theirs, ours in TIERS_OF_OTHERS.items():
        tier = pl.when(tier == theirs).then(pl.lit(ours)).otherwise(tier)
    return tier


def first_invalid(checked: Calls) -> Iterable[InvalidRow]:
    """Yield the first invalid rows, in their order."""
    known = checked.collect_schema().names()
    problems = problem_columns(known)
    listed = checked.filter(is_invalid(problems)).select("row", *problems).head(FIRST_INVALID)
    for row in fetch(listed):
        yield InvalidRow(row["row"] + 1, describe_problems(row, known))
