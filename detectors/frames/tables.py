"""A caller's dataframe as checked calls.

Columns are checked as expressions, a part of the rows at a time. The reason of an invalid row
follows from which fields are missing or bad.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from detectors.contract import REQUIRED_FIELDS, InvalidRows
from detectors.engine import Calls, categorize, fetch, keep, with_equal_types
from detectors.errors import UnreadableLogError
from detectors.formats.columns import HASHES, TABLE_FIELDS
from detectors.formats.problems import Offenders, Problem, contract_error, shown_name
from detectors.frames.table_columns import SPARSE, count_rows, first_invalid, with_problems
from detectors.frames.table_problems import describe_problems, is_invalid, problem_columns
from detectors.frames.usage_log import CheckedCalls

_PART_ROWS: Final = 1_000_000
_MANY_ROWS: Final = 10_000
_NO_LEVEL: Final = "-"  # which no check accepts


def check_table(frame: Calls) -> CheckedCalls:
    """Return the valid calls; invalid rows count from 1.

    Raises
    ------
    ContractError
        A column is outside the record schema.
    UnreadableLogError
        A required column is missing.
    """
    names = frame.collect_schema().names()
    _check_columns(names)
    table = frame.select(*[pl.col(name).alias(name.lower()) for name in names])
    checked = _check(table)
    counts = fetch(count_rows(checked))
    reasons: dict[str, int] = {}
    known = checked.collect_schema().names()
    for count in counts:
        if reason := describe_problems(count, known):
            reasons[reason] = reasons.get(reason, 0) + count["rows"]
    invalid = InvalidRows(
        count=sum(reasons.values()),
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        first=tuple(first_invalid(checked)) if reasons else (),
    )
    problems = problem_columns(known)
    valid = checked.filter(~is_invalid(problems)) if reasons else checked
    fine = next((count for count in counts if not describe_problems(count, known)), {})
    unused = [name for name in SPARSE if name in counts[0] and not fine.get(name)] if counts else []
    rows = sum(count["rows"] for count in counts)
    return CheckedCalls(valid.drop(*problems, *unused, "row"), rows, invalid)


def _check(table: Calls) -> Calls:
    """Check a part at a time, with categories for labels that repeat in it."""
    numbered = _with_plain_hashes(table).with_row_index("row")
    schema = numbered.collect_schema()
    if any(kind.is_nested() or kind == pl.Object for kind in schema.dtypes()):
        return keep(with_problems(numbered))
    plain = numbered.with_columns(
        pl.col(name).cast(pl.String) for name, kind in schema.items() if kind == pl.Categorical
    )
    batches = plain.collect_batches(chunk_size=_PART_ROWS, maintain_order=True)
    parts = [with_problems(_shorten(batch).lazy()).collect() for batch in batches]
    # A table without rows has no batches.
    parts = parts or [with_problems(numbered).collect()]
    return pl.concat(with_equal_types(parts)).lazy()


def _with_plain_hashes(table: Calls) -> Calls:
    """Turn hashes by level, of lists of texts or of bytes, into one text for each call."""
    kind = table.collect_schema().get(HASHES)
    if kind == pl.List(pl.String):
        levels = pl.col(HASHES).list.eval(pl.element().fill_null(_NO_LEVEL)).list.join(" ")
        return table.with_columns(levels)
    if kind == pl.Binary:
        return table.with_columns(pl.col(HASHES).bin.encode("hex"))
    return table


def _shorten(part: pl.DataFrame) -> pl.DataFrame:
    """Turn the labels of many calls that repeat into categories."""
    return categorize(part) if part.height > _MANY_ROWS else part


def _check_columns(names: Sequence[str]) -> None:
    offenders = Offenders()
    for number, name in enumerate(names, 1):
        if name.lower() not in TABLE_FIELDS:
            offenders.add("frame", Problem("unknown", shown_name(name, f"column {number}")))
    if offenders.named:
        raise contract_error(offenders)
    absent = [name for name in REQUIRED_FIELDS if name not in map(str.lower, names)]
    if absent:
        raise UnreadableLogError(
            f"A frame needs these columns: {', '.join(REQUIRED_FIELDS)}. "
            f"Missing: {', '.join(absent)}."
        )
    if len({name.lower() for name in names}) < len(names):
        raise UnreadableLogError("Each column of a frame needs a different name.")
