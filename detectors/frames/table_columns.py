"""Checks the columns of a caller's dataframe as expressions, without fetching a value."""

from collections.abc import Callable, Iterable
from typing import Final

import narwhals.stable.v2 as nw
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
from detectors.engines import Calls, Engine
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
)
from detectors.frames.table_problems import (
    CheckedColumn,
    describe_problems,
    encode,
    is_invalid,
    problem_columns,
)
from detectors.frames.usage_log import FIRST_INVALID

# No anchors at the end, because engines write them differently.
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
_NO_LEVELS: Final = "[^0-9a-f ]"  # a line break, before which some engines find an end
_CHOICES: Final = {field.name: field.choices for field in V2_FIELDS if field.choices}
# These exist in checked calls only if some call has a value.
SPARSE: Final = ("latency_ms", "service_tier", *OPTIONAL_COLUMNS)


def with_problems(table: Calls, engine: Engine) -> Calls:
    """Return the columns of checked calls, and the numbers of `table_problems`.

    Columns of checked calls are those of a frame of calls, with the time as the number `at_us`.
    """
    table = _with_times(engine.compose(table, WRITTEN_LABELS), engine)
    schema = table.collect_schema()
    given = [*schema.names(), *([UNKNOWN] if _is_text(schema.get("service_tier")) else [])]
    names = [name for name in present_columns(given) if name in given or name in COLUMNS]
    fine = {name for name, labels in engine.list_labels(table).items() if _is_fine(name, labels)}
    columns = {
        name: _plain_label(name) if name in fine else _read_column(name, schema.get(name))
        for name in names
    }
    row = [name for name in schema.names() if name == "row"]
    values = (
        column.value.alias("at_us" if name == "ts" else name)
        for name, column in columns.items()
        if name in given or name not in SPARSE
    )
    return table.select(*row, *values, *encode(columns))


def count_rows(checked: Calls) -> Calls:
    """Count the rows of each combination of problems, and those with a value in sparse columns."""
    known = checked.collect_schema().names()
    names, problems = [name for name in SPARSE if name in known], problem_columns(known)
    has_value = [_has_value(name).cast(nw.Int64).alias(name) for name in names]
    grouped = checked.select(*problems, *has_value).group_by(*problems)
    return grouped.agg(nw.len().alias("rows"), *(nw.col(name).sum() for name in names))


def _has_value(name: str) -> nw.Expr:
    is_nullable = name in ("latency_ms", REPORTED)
    return ~nw.col(name).is_null() if is_nullable else nw.col(name) != empty_value(name)


def _with_times(table: Calls, engine: Engine) -> Calls:
    """Add `at_us`, microseconds since 1970 in UTC; null or outside 2000 to 2100 for no time."""
    kind = table.collect_schema()["ts"]
    ts = nw.col("ts")
    if isinstance(kind, nw.Datetime):
        return engine.read_instants(table)
    if kind.is_integer():
        return table.with_columns(_scale(ts, _whole).alias("at_us"))
    if kind.is_numeric():
        numbers = table.with_columns(ts.cast(nw.Float64).alias("ts"))
        return numbers.with_columns(_scale(ts, _fractional).alias("at_us"))
    if isinstance(kind, nw.String) or engine.has_order:
        return engine.read_times(table)
    return table.with_columns(nw.lit(None, nw.Int64).alias("at_us"))


def _scale(ts: nw.Expr, convert: Callable[[nw.Expr, int], nw.Expr]) -> nw.Expr:
    """Convert Unix times in any unit to microseconds; `NO_TIME` outside 2000 to 2100."""
    first, last = FIRST_MICROSECOND * NANOSECONDS, LAST_MICROSECOND * NANOSECONDS
    is_nano = (ts >= first) & (ts < last)
    nanoseconds = nw.when(is_nano).then(ts).otherwise(nw.lit(0)).cast(nw.Int64)
    scaled = nw.when(is_nano).then(nanoseconds // NANOSECONDS).otherwise(nw.lit(NO_TIME, nw.Int64))
    for unit in UNITS:
        is_unit = _is_within(ts, unit)
        time = nw.when(is_unit).then(ts).otherwise(nw.lit(0))
        scaled = nw.when(is_unit).then(convert(time, unit)).otherwise(scaled)
    return scaled


def _whole(time: nw.Expr, unit: int) -> nw.Expr:
    return time.cast(nw.Int64) * unit


def _fractional(time: nw.Expr, unit: int) -> nw.Expr:
    """Round half to even as Python does."""
    exact = time * float(unit)
    down = exact.floor()
    rest = exact - down
    is_up = (rest > 0.5) | ((rest == 0.5) & ((down / 2).floor() * 2 != down))
    return down.cast(nw.Int64) + is_up.cast(nw.Int64)


def _is_within(time: nw.Expr, units: int) -> nw.Expr:
    """Check for a time from 2000 to 2100; `units` is the microseconds per unit."""
    return (time >= FIRST_MICROSECOND // units) & (time < LAST_MICROSECOND // units)


def _is_fine(name: str, labels: pl.Series) -> bool:
    """Check whether all labels of a column are valid, and as checked calls have them."""
    value, is_fine = _label(name, nw.String())
    is_same = (is_fine & (value == nw.col(name))).alias("is_same")
    given = nw.from_native(labels.drop_nulls().alias(name).to_frame())
    return bool(given.select(is_same)["is_same"].all())


def _plain_label(name: str) -> CheckedColumn:
    """Return a column whose labels are all valid, so that only absent ones are left to find."""
    is_missing = nw.col(name).is_null() if name in REQUIRED_FIELDS else nw.lit(value=False)
    return CheckedColumn(nw.col(name).fill_null(""), nw.lit(value=False), is_missing)


def _read_column(name: str, kind: nw.dtypes.DType | None) -> CheckedColumn:
    if name == UNKNOWN:
        return CheckedColumn(_unknown_tier(), nw.lit(value=False), nw.lit(value=False))
    if kind is None:
        return CheckedColumn(_absent(name), nw.lit(value=False), nw.lit(value=False))
    column, is_absent = nw.col(name), nw.col(name).is_null()
    if kind.is_float():
        is_absent = is_absent | column.is_nan().fill_null(value=False)
    if name == "ts":
        value, is_fine = nw.col("at_us"), _is_within(nw.col("at_us"), 1)
    elif name in _COUNTS or name in _MOST:
        value, is_fine = _number(name, kind)
    else:
        value, is_fine = _label(name, kind)
    is_bad = ~is_fine.fill_null(value=False) & ~is_absent
    is_missing = is_absent if name in REQUIRED_FIELDS else nw.lit(value=False)
    return CheckedColumn(value, is_bad, is_missing)


def _absent(name: str) -> nw.Expr:
    if name in ("latency_ms", REPORTED):
        return nw.lit(None, nw.Float64)
    if name in SECONDS:
        return nw.lit(0.0)
    return nw.lit(0, nw.Int64) if name in _COUNTS else nw.lit("")


def _number(name: str, kind: nw.dtypes.DType) -> tuple[nw.Expr, nw.Expr]:
    """Check a number; whole floats are integers, as pandas writes them beside missing values."""
    if not kind.is_numeric():
        return _absent(name), nw.lit(value=False)
    value = nw.col(name) if kind.is_integer() else nw.col(name).cast(nw.Float64)
    if name in _MOST:
        value = value.cast(nw.Float64)
        is_fine = (value >= 0) & (value <= _MOST[name])
        valid = nw.when(is_fine).then(value)
        return valid.otherwise(nw.lit(0.0)) if name in SECONDS else valid, is_fine
    is_fine = (value >= 0) & (value <= MAX_COUNT)
    if not kind.is_integer():
        is_fine = is_fine & (value.floor() == value)
    return nw.when(is_fine).then(value).otherwise(nw.lit(0)).cast(nw.Int64), is_fine


def _label(name: str, kind: nw.dtypes.DType) -> tuple[nw.Expr, nw.Expr]:
    if name == "service_tier":
        tier = _tier() if _is_text(kind) else nw.lit("")
        priced = nw.when(tier.is_in(SERVICE_TIERS)).then(tier).otherwise(nw.lit(""))
        return priced, nw.lit(value=True)
    if not _is_text(kind):
        return nw.lit(""), nw.lit(value=False)
    text = nw.col(name).cast(nw.String).fill_null("")
    length = text.str.len_chars()
    if name == "provider":
        text = text.str.to_lowercase()
        is_fine = (length > 0) & (length <= _PROVIDER_LENGTH) & ~text.str.contains(_NO_PROVIDER)
        return text, is_fine
    if name == HASHES:
        is_fine = text.str.contains(_LEVELS_TEXT) & ~text.str.contains(_NO_LEVELS) | (length == 0)
        return text.str.replace_all(" ", "", literal=True), is_fine
    if name in _CHOICES:
        return text, text.is_in(("", *_CHOICES[name]))
    if name in _HASHES:
        is_fine = (length == _HASH_LENGTH) & ~text.str.contains(_NO_HASH) | (length == 0)
        return text.str.to_lowercase(), is_fine
    is_fine = (length <= MAX_LABEL_LENGTH) & ~text.str.contains(_CONTROL)
    return text, is_fine & (length > 0) if name == "model" else is_fine


def _is_text(kind: nw.dtypes.DType | None) -> bool:
    return isinstance(kind, nw.String | nw.Categorical | nw.Enum)


def _tier() -> nw.Expr:
    """Return the service tier under the name that a record has for it."""
    tier = nw.col("service_tier").cast(nw.String).fill_null("").str.to_lowercase()
    for theirs, ours in TIERS_OF_OTHERS.items():
        tier = nw.when(tier == theirs).then(nw.lit(ours)).otherwise(tier)
    return tier


def _unknown_tier() -> nw.Expr:
    """Return a tier that we don't know as files have it, as the name of an unknown field."""
    tier = _tier()
    is_known = tier.is_in((*STANDARD_TIERS, *SERVICE_TIERS))
    named = nw.concat_str([nw.lit("service_tier."), tier])
    named = nw.when(tier.str.contains(NO_TIER_NAME)).then(nw.lit("service_tier")).otherwise(named)
    return nw.when(~is_known).then(named).otherwise(nw.lit(""))


def first_invalid(checked: Calls, engine: Engine) -> Iterable[InvalidRow]:
    """Yield the first invalid rows, in their order."""
    known = checked.collect_schema().names()
    problems = problem_columns(known)
    listed = checked.filter(is_invalid(problems)).select("row", *problems).head(FIRST_INVALID)
    for row in engine.fetch(listed):
        yield InvalidRow(row["row"] + 1, describe_problems(row, known))
