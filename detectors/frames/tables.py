"""A caller's dataframe as checked calls.

Columns are checked as expressions, a part of the rows at a time. The reason of an invalid row
follows from which fields are missing or bad.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from detectors.contract import REQUIRED_FIELDS, InvalidRow, InvalidRows
from detectors.engine import Calls, categorize, fetch
from detectors.engine.levels import LEVELS_LIST
from detectors.errors import ContractError, UnreadableLogError
from detectors.formats.columns import HASHES, TABLE_FIELDS
from detectors.formats.csv_logs.names import SYNONYMS, plain, propose
from detectors.formats.problems import Offenders, Problem, contract_error, shown_name
from detectors.frames.table_columns import SPARSE, count_rows, first_invalid, with_problems
from detectors.frames.table_problems import describe_problems, is_invalid, problem_columns
from detectors.frames.usage_log import FIRST_INVALID, Add, Summary
from detectors.threads import in_turn

_PART_ROWS: Final = 500_000
_ROWS_OF_LISTS: Final = 200_000  # texts of lists take much memory
_MANY_ROWS: Final = 10_000
_BATCHES_AT_ONCE: Final = 2
_NO_LEVEL: Final = "-"  # which no check accepts
_NAMES: Final = frozenset({*TABLE_FIELDS}.union(*map(set, SYNONYMS.values())))
_OFTEN_NUMBERS: Final = frozenset({"request_id", "tag", "session_id"})  # in other tools


def check_table(
    frame: Calls, add: Add, *, has_texts: bool = False
) -> tuple[Summary, Sequence[str]]:
    """Check a part of the rows at a time; invalid rows count from 1.

    Also return the columns in which no valid row has a value. Lists of hashes by level become texts
    with `has_texts`, else numbers.

    Raises
    ------
    ContractError, UnreadableLogError
        As for `check_columns`.
    """
    names = frame.collect_schema().names()
    check_columns(names)
    table = frame.select(*[pl.col(name).alias(name.lower()) for name in names])
    reasons, first = Counter[str](), list[InvalidRow]()
    rows, used, sparse = 0, set[str](), set[str]()
    for checked in _check(table, has_texts=has_texts):
        problems, are_valid = problem_columns(checked.columns), True
        for count in fetch(count_rows(checked.lazy())):
            rows += count["rows"]
            sparse |= count.keys() & set(SPARSE)
            if reason := describe_problems(count, checked.columns):
                reasons[reason] += count["rows"]
                are_valid = False
            else:
                used |= {name for name in sparse if count[name]}
        if reasons and len(first) < FIRST_INVALID:
            first += first_invalid(checked.lazy())
        valid = checked if are_valid else checked.filter(~is_invalid(problems))
        valid = valid.drop(*problems, "row")
        # Numbers replace lists of hashes by level.
        add(valid.drop(HASHES) if valid.schema.get(HASHES) == pl.Boolean else valid)
    invalid = InvalidRows(
        count=reasons.total(),
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        first=tuple(first[:FIRST_INVALID]),
    )
    return Summary(rows, invalid), [name for name in SPARSE if name in sparse - used]


def _check(table: Calls, *, has_texts: bool) -> Iterator[pl.DataFrame]:
    kind = table.collect_schema().get(HASHES)
    if kind == LEVELS_LIST and has_texts:
        levels = pl.col(HASHES).list.eval(pl.element().fill_null(_NO_LEVEL)).list.join(" ")
        table = table.with_columns(levels)
    elif kind == pl.Binary:
        table = table.with_columns(pl.col(HASHES).bin.encode("hex"))
    numbered = table.with_row_index("row")
    schema = numbered.collect_schema()
    others = (each for name, each in schema.items() if (name, each) != (HASHES, LEVELS_LIST))
    if any(each.is_nested() or each == pl.Object for each in others):
        yield with_problems(numbered).collect()
        return
    plain = numbered.with_columns(
        pl.col(name).cast(pl.String) for name, each in schema.items() if each == pl.Categorical
    )
    checked, rows = None, _PART_ROWS if kind != LEVELS_LIST else _ROWS_OF_LISTS
    batches = plain.collect_batches(chunk_size=rows, maintain_order=True)
    for checked in in_turn(_check_batch, _read(batches), _BATCHES_AT_ONCE):
        yield checked
    if checked is None:  # a table without rows
        yield with_problems(numbered).collect()


def _read(batches: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    try:
        yield from batches
    except pl.exceptions.PolarsError as error:
        # Without what the error says, which may have values in it.
        raise UnreadableLogError(
            f"Some rows can't be read ({type(error).__name__}). If they come from files, a file "
            "may be damaged or incomplete, or its columns may differ from those of the first file."
        ) from error


def _check_batch(batch: pl.DataFrame) -> pl.DataFrame:
    part = categorize(batch) if batch.height > _MANY_ROWS else batch
    # Not streamed, because then each column is in many pieces, which take longer to divide.
    return with_problems(part.lazy()).collect(engine="in-memory")


def check_columns(names: Sequence[str]) -> None:
    """Check that a frame has the columns of the record schema, each once.

    Raises
    ------
    ContractError
        A column is outside the record schema.
    UnreadableLogError
        A required column is missing, or a name is there twice.
    """
    offenders = Offenders()
    for number, name in enumerate(names, 1):
        if name.lower() not in TABLE_FIELDS:
            offenders.add("frame", Problem("unknown", shown_name(name, f"column {number}")))
    if offenders.named:
        error, advice = contract_error(offenders), _advise(names)
        raise ContractError(advice, error.offenders) if advice else error
    absent = [name for name in REQUIRED_FIELDS if name not in map(str.lower, names)]
    if absent:
        raise UnreadableLogError(
            f"A frame needs these columns: {', '.join(REQUIRED_FIELDS)}. "
            f"Missing: {', '.join(absent)}."
        )
    if len({name.lower() for name in names}) < len(names):
        raise UnreadableLogError("Each column of a frame needs a different name.")


def _advise(names: Sequence[str]) -> str:
    """Return which columns to rename, drop and add; "" if their names don't say what they are."""
    if len(set(names)) < len(names):
        return ""
    renamed, dropped, unnamed, fields = dict[str, str](), list[str](), list[str](), set[str]()
    for number, column in enumerate(propose(names), 1):
        name = column.name
        # A name that isn't a field's may be anything, even content.
        is_known = shown_name(name, "") == name or plain(name) in _NAMES
        if column.field in TABLE_FIELDS and is_known:
            fields.add(column.field)
            if name.lower() != column.field:
                renamed[name] = column.field
        elif name.lower() not in TABLE_FIELDS:
            if is_known:
                dropped.append(name)
            else:
                unnamed.append(f"column {number}")
    absent = [name for name in REQUIRED_FIELDS if name not in fields]
    if not renamed or absent not in ([], ["provider"]):
        return ""
    steps = [f"rename {renamed}", *([f"drop {dropped}"] if dropped else [])]
    steps += [f"drop {', '.join(unnamed)}"] if unnamed else []
    steps += [f"add a column {name}" for name in absent]
    listed = f"{', '.join(steps[:-1])} and {steps[-1]}" if len(steps) > 1 else steps[0]
    texts = [field for field in renamed.values() if field in _OFTEN_NUMBERS]
    also = f" Give {', '.join(texts)} as text." if texts else ""
    return f"These columns aren't those of a usage record. To read them, {listed}.{also}"
