"""A caller's own dataframe as checked calls, on the engine that holds it.

Columns are checked whole, as expressions, and nothing is brought here but counts. What is wrong
with a row follows from which of its fields are missing or bad, so no value needs to be looked at.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import narwhals.stable.v2 as nw

from detectors.contract import (
    MAX_COUNT,
    MAX_LABEL_LENGTH,
    MAX_LATENCY_MS,
    REQUIRED_FIELDS,
    InvalidRow,
    InvalidRows,
)
from detectors.engines import Calls, Engine
from detectors.errors import UnreadableLogError
from detectors.formats.chunks import FIRST_INVALID
from detectors.formats.columns import COLUMNS, COUNTS, SERVICE_TIERS
from detectors.formats.fields import FIRST_MICROSECOND, LAST_MICROSECOND, LOG_RECORD
from detectors.formats.problems import (
    Offender,
    bad,
    contract_error,
    describe,
    missing,
    shown_name,
    unknown,
)

# Columns of checked calls: as in a frame of calls, but the time as a number.
CHECKED: Final = ("at_us", *COLUMNS[1:])

# Without anchors at the end, which engines write differently.
_CONTROL: Final = r"[\x00-\x1f\x7f-\x9f]"
_NO_PROVIDER: Final = r"^[._-]|[^a-z0-9._-]"
_NO_HASH: Final = "[^0-9a-fA-F]"
_PROVIDER_LENGTH: Final = 64
_HASH_LENGTH: Final = 64
_SECOND_US: Final = 1_000_000

Native = nw.DataFrame[Any] | nw.LazyFrame[Any]


@dataclass(frozen=True, slots=True)
class CheckedCalls:
    """The valid calls of a log, and what became of the other rows."""

    calls: Calls
    rows: int
    invalid: InvalidRows

    @property
    def valid_pct(self) -> float:
        """Percentage of valid rows, 0 to 100; 0 for a log without rows."""
        return 100.0 * (self.rows - self.invalid.count) / self.rows if self.rows else 0.0


def find_frame(source: object) -> Native | None:
    """The source as a Narwhals frame, if it is a frame of any engine."""
    frame = nw.from_native(source, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame | nw.LazyFrame) else None


def check_table(frame: Native, engine: Engine) -> CheckedCalls:
    """The valid calls; invalid rows are counted from 1, and listed where rows have an order.

    Raises
    ------
    ContractError
        A column is outside the record schema; `service_tier` may stand beside it.
    UnreadableLogError
        A required column is missing.
    """
    names = frame.collect_schema().names()
    _check_columns(names)
    table = frame.lazy().select(*[nw.col(name).alias(name.lower()) for name in names])
    judged = engine.keep(_judge(engine.settle(table), engine))
    counts = engine.fetch(judged.group_by("problems").agg(nw.len().alias("rows")))
    reasons: dict[str, int] = {}
    for count in counts:
        if count["problems"]:
            reason = _describe(count["problems"])
            reasons[reason] = reasons.get(reason, 0) + count["rows"]
    invalid = InvalidRows(
        count=sum(reasons.values()),
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        first=tuple(_first(judged, engine)) if reasons and engine.has_order else (),
    )
    valid = judged.filter(nw.col("problems") == 0) if reasons else judged
    return CheckedCalls(valid.select(*CHECKED), sum(count["rows"] for count in counts), invalid)


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


def _judge(table: Calls, engine: Engine) -> Calls:
    """The columns of `CHECKED`, and as `problems` a digit to base 3 for each field.

    A digit is 0 for what is fine, 1 for a bad value and 2 for a missing one.
    """
    table = _with_times(table, engine)
    schema = table.collect_schema()
    given = [_given(name, schema.get(name)) for name in COLUMNS]
    problems = nw.lit(0, nw.Int64)
    for place, one in enumerate(given):
        digit = nw.when(one.is_missing).then(nw.lit(2, nw.Int64)).otherwise(_digit(one.is_bad))
        problems = problems + digit * 3**place
    row = [name for name in schema.names() if name == "row"]
    values = (one.value.alias(name) for name, one in zip(CHECKED, given, strict=True))
    return table.select(*row, *values, problems.alias("problems"))


def _digit(is_bad: nw.Expr) -> nw.Expr:
    return nw.when(is_bad).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))


def _describe(problems: int) -> str:
    digits = [problems // 3**place % 3 for place in range(len(COLUMNS))]
    states = dict(zip(COLUMNS, digits, strict=True))
    found = [missing(name) for name in REQUIRED_FIELDS if states[name] == 2]
    found += [bad(name, LOG_RECORD[name].expected) for name in LOG_RECORD if states[name] == 1]
    return describe(found)


def _first(judged: Calls, engine: Engine) -> Iterable[InvalidRow]:
    listed = judged.filter(nw.col("problems") > 0).select("row", "problems").head(FIRST_INVALID)
    for row in engine.fetch(listed):
        yield InvalidRow(row["row"] + 1, _describe(row["problems"]))


def _with_times(table: Calls, engine: Engine) -> Calls:
    """The table with `at_us`, microseconds since 1970 in UTC; null where `ts` is no time."""
    kind = table.collect_schema()["ts"]
    ts = nw.col("ts")
    if isinstance(kind, nw.Datetime):
        return engine.read_instants(table)
    if kind.is_integer():
        return table.with_columns(_whole_seconds(ts).alias("at_us"))
    if kind.is_numeric():
        seconds = table.with_columns(ts.cast(nw.Float64).alias("ts"))
        return seconds.with_columns(_seconds(ts).alias("at_us"))
    if isinstance(kind, nw.String) or engine.has_order:
        return engine.read_times(table)
    return table.with_columns(nw.lit(None, nw.Int64).alias("at_us"))


def _whole_seconds(ts: nw.Expr) -> nw.Expr:
    return nw.when(_is_within(ts, _SECOND_US)).then(ts).cast(nw.Int64) * _SECOND_US


def _seconds(ts: nw.Expr) -> nw.Expr:
    """Rounded half to even, as Python does it."""
    exact = nw.when(_is_within(ts, _SECOND_US)).then(ts) * float(_SECOND_US)
    down = exact.floor()
    rest = exact - down
    is_up = (rest > 0.5) | ((rest == 0.5) & ((down / 2).floor() * 2 != down))
    return down.cast(nw.Int64) + is_up.cast(nw.Int64)


def _is_within(time: nw.Expr, units: int) -> nw.Expr:
    """From 2000 to 2100; a time of so many microseconds a unit."""
    return (time >= FIRST_MICROSECOND // units) & (time < LAST_MICROSECOND // units)


@dataclass(frozen=True, slots=True)
class _Given:
    """A column's value in the schema of calls, and which rows have none or a wrong one."""

    value: nw.Expr
    is_bad: nw.Expr
    is_missing: nw.Expr


def _given(name: str, kind: nw.dtypes.DType | None) -> _Given:
    if kind is None:
        return _Given(_nothing(name), nw.lit(value=False), nw.lit(value=False))
    column, is_absent = nw.col(name), nw.col(name).is_null()
    if kind.is_float():
        is_absent = is_absent | column.is_nan().fill_null(value=False)
    if name == "ts":
        value, is_fine = nw.col("at_us"), _is_within(nw.col("at_us"), 1)
    elif name in COUNTS or name == "latency_ms":
        value, is_fine = _number(name, kind)
    else:
        value, is_fine = _label(name, kind)
    is_bad = ~is_fine.fill_null(value=False) & ~is_absent
    is_missing = is_absent if name in REQUIRED_FIELDS else nw.lit(value=False)
    return _Given(value, is_bad, is_missing)


def _nothing(name: str) -> nw.Expr:
    if name == "latency_ms":
        return nw.lit(None, nw.Float64)
    return nw.lit(0, nw.Int64) if name in COUNTS else nw.lit("")


def _number(name: str, kind: nw.dtypes.DType) -> tuple[nw.Expr, nw.Expr]:
    """Whole floats are integers too: so pandas keeps integers beside missing values."""
    if not kind.is_numeric():
        return _nothing(name), nw.lit(value=False)
    value = nw.col(name) if kind.is_integer() else nw.col(name).cast(nw.Float64)
    if name == "latency_ms":
        value = value.cast(nw.Float64)
        is_fine = (value >= 0) & (value <= MAX_LATENCY_MS)
        return nw.when(is_fine).then(value), is_fine
    is_fine = (value >= 0) & (value <= MAX_COUNT)
    if not kind.is_integer():
        is_fine = is_fine & (value.floor() == value)
    return nw.when(is_fine).then(value).otherwise(nw.lit(0)).cast(nw.Int64), is_fine


def _label(name: str, kind: nw.dtypes.DType) -> tuple[nw.Expr, nw.Expr]:
    is_text = isinstance(kind, nw.String | nw.Categorical | nw.Enum)
    if name == "service_tier":
        # Whatever else stands there, a vendor's word for its standard tier, is not priced apart.
        tier = nw.col(name).cast(nw.String) if is_text else nw.lit("")
        priced = nw.when(tier.is_in(SERVICE_TIERS)).then(tier).otherwise(nw.lit(""))
        return priced, nw.lit(value=True)
    if not is_text:
        return nw.lit(""), nw.lit(value=False)
    text = nw.col(name).cast(nw.String).fill_null("")
    length = text.str.len_chars()
    if name == "provider":
        is_fine = (length > 0) & (length <= _PROVIDER_LENGTH) & ~text.str.contains(_NO_PROVIDER)
        return text, is_fine
    if name == "prefix_hash":
        is_fine = (length == _HASH_LENGTH) & ~text.str.contains(_NO_HASH) | (length == 0)
        return text.str.to_lowercase(), is_fine
    is_fine = (length <= MAX_LABEL_LENGTH) & ~text.str.contains(_CONTROL)
    return text, is_fine & (length > 0) if name == "model" else is_fine
