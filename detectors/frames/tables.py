"""A caller's dataframe as checked calls, on the engine that holds it.

Columns are checked as expressions, and only counts are fetched. The reason of an invalid row
follows from which fields are missing or bad, so no value is fetched.
"""

from collections.abc import Sequence
from functools import partial

import narwhals.stable.v2 as nw

from detectors.contract import REQUIRED_FIELDS, InvalidRows
from detectors.engines import Calls, Engine
from detectors.errors import UnreadableLogError
from detectors.formats.columns import TABLE_FIELDS
from detectors.formats.problems import Offenders, Problem, contract_error, shown_name
from detectors.frames.table_columns import SPARSE, count_rows, first_invalid, with_problems
from detectors.frames.table_problems import describe_problems, is_invalid, problem_columns
from detectors.frames.usage_log import CheckedCalls


def check_table(frame: Calls, engine: Engine) -> CheckedCalls:
    """Return the valid calls; invalid rows count from 1 and are listed if rows have an order.

    Raises
    ------
    ContractError
        A column is outside the record schema.
    UnreadableLogError
        A required column is missing.
    """
    names = frame.collect_schema().names()
    _check_columns(names)
    table = frame.select(*[nw.col(name).alias(name.lower()) for name in names])
    checked = engine.keep_checked(table, partial(with_problems, engine=engine))
    counts = engine.fetch(count_rows(checked))
    reasons: dict[str, int] = {}
    known = checked.collect_schema().names()
    for count in counts:
        if reason := describe_problems(count, known):
            reasons[reason] = reasons.get(reason, 0) + count["rows"]
    invalid = InvalidRows(
        count=sum(reasons.values()),
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        first=tuple(first_invalid(checked, engine)) if reasons and engine.has_order else (),
    )
    problems = problem_columns(known)
    valid = checked.filter(~is_invalid(problems)) if reasons else checked
    fine = next((count for count in counts if not describe_problems(count, known)), {})
    unused = [name for name in SPARSE if name in counts[0] and not fine.get(name)] if counts else []
    calls = valid.drop(*problems, *unused, *(["row"] if engine.has_order else []))
    rows = sum(count["rows"] for count in counts)
    return CheckedCalls(engine.with_plain_values(calls), rows, invalid)


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
