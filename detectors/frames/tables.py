"""A caller's dataframe as checked calls, on the engine that holds it.

Columns are checked as expressions, and only counts are fetched. The reason of an invalid row
follows from which fields are missing or bad, so no value is fetched.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw

from detectors.contract import (
    REQUIRED_FIELDS,
    InvalidRow,
    InvalidRows,
)
from detectors.engines import Calls, Engine
from detectors.errors import UnreadableLogError
from detectors.formats.columns import COLUMNS
from detectors.formats.fields import LOG_RECORD
from detectors.formats.problems import (
    Offender,
    bad,
    contract_error,
    describe,
    missing,
    shown_name,
    unknown,
)
from detectors.frames.table_columns import CheckedColumn, read_column, with_times
from detectors.frames.usage_log import FIRST_INVALID, CheckedCalls

# Columns of checked calls: those of a frame of calls, with the time as a number.
CHECKED: Final = ("at_us", *COLUMNS[1:])

Native = nw.DataFrame[Any] | nw.LazyFrame[Any]


def check_table(frame: Native, engine: Engine) -> CheckedCalls:
    """Return the valid calls; invalid rows count from 1 and are listed if rows have an order.

    Raises
    ------
    ContractError
        A column is outside the record schema; `service_tier` is allowed too.
    UnreadableLogError
        A required column is missing.
    """
    names = frame.collect_schema().names()
    _check_columns(names)
    table = frame.lazy().select(*[nw.col(name).alias(name.lower()) for name in names])
    checked = engine.keep(_check(engine.with_plain_types(table), engine))
    counts = engine.fetch(checked.group_by("problems").agg(nw.len().alias("rows")))
    reasons: dict[str, int] = {}
    for count in counts:
        if count["problems"]:
            reason = _describe(count["problems"])
            reasons[reason] = reasons.get(reason, 0) + count["rows"]
    invalid = InvalidRows(
        count=sum(reasons.values()),
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        first=tuple(_first(checked, engine)) if reasons and engine.has_order else (),
    )
    valid = checked.filter(nw.col("problems") == 0) if reasons else checked
    return CheckedCalls(valid.select(*CHECKED), sum(count["rows"] for count in counts), invalid)


def _check_columns(names: Sequence[str]) -> None:
    unknown_columns = [
        Offender("frame", unknown(shown_name(name, f"column {number}")))
        for number, name in enumerate(names, 1)
        if name.lower() not in COLUMNS
    ]
    if unknown_columns:
        raise contract_error(unknown_columns)
    absent = [name for name in REQUIRED_FIELDS if name not in map(str.lower, names)]
    if absent:
        raise UnreadableLogError(
            f"A frame needs these columns: {', '.join(REQUIRED_FIELDS)}. "
            f"Missing: {', '.join(absent)}."
        )
    if len({name.lower() for name in names}) < len(names):
        raise UnreadableLogError("Each column of a frame needs a different name.")


def _check(table: Calls, engine: Engine) -> Calls:
    """Return the columns of `CHECKED`, and `problems` with a digit in base 3 for each field.

    A digit is 0 for a valid value, 1 for a bad one and 2 for a missing one.
    """
    table = with_times(table, engine)
    schema = table.collect_schema()
    columns = [read_column(name, schema.get(name)) for name in COLUMNS]
    problems = nw.lit(0, nw.Int64)
    for index, column in enumerate(columns):
        problems = problems + _digit(column) * 3**index
    row = [name for name in schema.names() if name == "row"]
    values = (column.value.alias(name) for name, column in zip(CHECKED, columns, strict=True))
    return table.select(*row, *values, problems.alias("problems"))


def _digit(column: CheckedColumn) -> nw.Expr:
    bad_or_fine = nw.when(column.is_bad).then(nw.lit(1, nw.Int64)).otherwise(nw.lit(0, nw.Int64))
    return nw.when(column.is_missing).then(nw.lit(2, nw.Int64)).otherwise(bad_or_fine)


def _describe(problems: int) -> str:
    digits = [problems // 3**index % 3 for index in range(len(COLUMNS))]
    states = dict(zip(COLUMNS, digits, strict=True))
    found = [missing(name) for name in REQUIRED_FIELDS if states[name] == 2]
    found += [bad(name, LOG_RECORD[name].expected) for name in LOG_RECORD if states[name] == 1]
    return describe(found)


def _first(checked: Calls, engine: Engine) -> Iterable[InvalidRow]:
    listed = checked.filter(nw.col("problems") > 0).select("row", "problems").head(FIRST_INVALID)
    for row in engine.fetch(listed):
        yield InvalidRow(row["row"] + 1, _describe(row["problems"]))
