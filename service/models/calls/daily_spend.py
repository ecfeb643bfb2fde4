"""Spend by day of call, route, provider, model and environment, for each call file.

The spend of an account is the sum over its live files, so it changes in the same transaction as
the catalog. Charts and exports read this table and never a report or a call.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any, Final

import msgspec
from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnClause,
    ColumnElement,
    Connection,
    Date,
    ForeignKey,
    Index,
    Insert,
    Numeric,
    SmallInteger,
    TableValuedAlias,
    Text,
    and_,
    bindparam,
    cast,
    column,
    delete,
    func,
    insert,
    literal,
    select,
    true,
)
from sqlalchemy.orm import Mapped, mapped_column

from detectors.contract import DailyPlanUsage, DailySpend
from service.models.base import Base, Owner

_USD: Final = Numeric(30, 9)
# In one statement, some 3 MB.
_LINES_AT_ONCE: Final = 10_000


class _Line:
    """What a line of a file's spend and one of its plan usage have in common."""

    # Labels are too long for a key of their own.
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    account_id: Mapped[Owner]
    file_id: Mapped[str] = mapped_column(
        ForeignKey("call_files.id", ondelete="CASCADE"), index=True
    )
    day: Mapped[date]
    # From the UTC day to the day in the account's time zone: -1, 0 or 1.
    day_shift: Mapped[int] = mapped_column(SmallInteger, default=0, server_default="0")
    route: Mapped[str]
    provider: Mapped[str]
    model: Mapped[str]
    environment: Mapped[str]
    calls: Mapped[int] = mapped_column(BigInteger)
    unpriced_calls: Mapped[int] = mapped_column(BigInteger)
    prompt_tokens: Mapped[int] = mapped_column(BigInteger)
    completion_tokens: Mapped[int] = mapped_column(BigInteger)
    cached_tokens: Mapped[int] = mapped_column(BigInteger)
    cache_write_tokens: Mapped[int] = mapped_column(BigInteger)


class SpendRow(_Line, Base):
    """One line of the spend of one file."""

    __tablename__ = "daily_spend"
    __table_args__ = (
        # Both contain the sums of pages, which so read no more than the index of their days.
        Index(
            "ix_daily_spend_local_labels",
            *("account_id", "day"),
            postgresql_include=(
                *("day_shift", "route", "provider", "model", "environment", "calls", "cost_usd"),
            ),
        ),
        Index(
            "ix_daily_spend_local_route",
            *("account_id", "route", "day"),
            postgresql_include=("day_shift", "calls", "cost_usd"),
        ),
    )

    cost_usd: Mapped[Decimal] = mapped_column(_USD)
    list_usd: Mapped[Decimal] = mapped_column(_USD)


class SpendDay(Base):
    """The calls and dollars of one file on one day.

    Triggers of `daily_spend` keep this table, so that a process of the previous release does, too.
    """

    __tablename__ = "spend_days"
    __table_args__ = (
        Index(
            *("ix_spend_days_local", "account_id", "day"),
            postgresql_include=("day_shift", "cost_usd"),
        ),
    )

    file_id: Mapped[str] = mapped_column(
        ForeignKey("call_files.id", ondelete="CASCADE"), primary_key=True
    )
    day: Mapped[date] = mapped_column(primary_key=True)
    day_shift: Mapped[int] = mapped_column(SmallInteger, primary_key=True, server_default="0")
    account_id: Mapped[Owner]
    calls: Mapped[int] = mapped_column(BigInteger)
    cost_usd: Mapped[Decimal] = mapped_column(_USD)


class SpendGroup(Base):
    """The calls and dollars of one file on one day that have one value of one label.

    Pages that group by a single label read these few rows; the same triggers keep them.
    """

    __tablename__ = "spend_groups"
    __table_args__ = (
        Index(
            "ix_spend_groups_local",
            *("account_id", "label", "day"),
            postgresql_include=("day_shift", "value", "calls", "cost_usd"),
        ),
        Index(
            "ix_spend_groups_local_value",
            *("account_id", "label", "value", "day"),
            postgresql_include=("day_shift", "calls", "cost_usd"),
        ),
    )

    file_id: Mapped[str] = mapped_column(
        ForeignKey("call_files.id", ondelete="CASCADE"), primary_key=True
    )
    day: Mapped[date] = mapped_column(primary_key=True)
    day_shift: Mapped[int] = mapped_column(SmallInteger, primary_key=True, server_default="0")
    label: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[Owner]
    calls: Mapped[int] = mapped_column(BigInteger)
    cost_usd: Mapped[Decimal] = mapped_column(_USD)


class PlanRow(_Line, Base):
    """The calls of one file that a plan includes, on one day, with the same labels.

    They have a table of their own, so that no sum of spend mixes value and money, not even one of
    the previous release.
    """

    __tablename__ = "plan_usage"
    __table_args__ = (Index("ix_plan_usage_account", "account_id", "day"),)

    hour: Mapped[int | None] = mapped_column(SmallInteger)  # in UTC; none of the previous release
    value_usd: Mapped[Decimal] = mapped_column(_USD)


def day_of(table: Any, *, is_local: bool) -> Any:
    """Return the UTC day of a table's lines or, if it is local, that of the account's zone."""
    return table.day + table.day_shift if is_local else table.day


def within_days(table: Any, first: Any, last: Any, *, is_local: bool) -> ColumnElement[bool]:
    """Match the lines of some days.

    Indexes have UTC days, so the two beside are read, too, for the days of another zone.
    """
    found: ColumnElement[bool] = day_of(table, is_local=is_local).between(first, last)
    if not is_local:
        return found
    return and_(table.day >= _cast(first) - 1, table.day <= _cast(last) + 1, found)


def _cast(day: Any) -> Any:
    return day if isinstance(day, ColumnElement) else literal(day, Date)


def add_spend(
    connection: Connection, spend: Iterable[tuple[str, str, Sequence[DailySpend]]]
) -> None:
    """Add the spend of some files, each with its ID and its account, and their plan usage apart."""
    given = list(spend)
    for table in (SpendRow, PlanRow):
        is_plan = table is PlanRow
        own = [
            (file, owner, [line for line in lines if isinstance(line, DailyPlanUsage) is is_plan])
            for file, owner, lines in given
        ]
        for files in _in_parts(own):
            connection.execute(_add_lines(table), {"files": msgspec.json.encode(files).decode()})


def _in_parts(
    spend: Iterable[tuple[str, str, Sequence[DailySpend]]],
) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield files with at most `_LINES_AT_ONCE` lines together; one of more lines is in several."""
    part, room = list[Mapping[str, Any]](), _LINES_AT_ONCE
    for file_id, account_id, lines in spend:
        for first in range(0, len(lines), _LINES_AT_ONCE):
            some = lines[first : first + _LINES_AT_ONCE]
            if len(some) > room:
                yield part
                part, room = [], _LINES_AT_ONCE
            part.append({"file_id": file_id, "account_id": account_id, "lines": some})
            room -= len(some)
    if part:
        yield part


@cache
def _add_lines(row: type[SpendRow] | type[PlanRow]) -> Insert:
    """Return the statement that adds lines to a table, which are one parameter.

    With a parameter for each value, making the statement and parsing it took twice as long as what
    it does: PostgreSQL reads JSON faster than SQL.
    """
    table = SpendRow.__table__
    of_file = (column("file_id", Text), column("account_id", Text))
    kind = DailyPlanUsage if row is PlanRow else DailySpend
    of_line = [column(name, table.c[name].type) for name in DailySpend.__struct_fields__]
    if row is PlanRow:
        of_line.append(column("hour", SmallInteger))
    files = _rows(cast(bindparam("files", type_=Text), JSON), *of_file, column("lines", JSON))
    lines = _rows(files.c.lines, *of_line)
    names = {name: name for name in kind.__struct_fields__}
    if row is PlanRow:
        names = {**names, "cost_usd": "value_usd"}
        del names["list_usd"]
    found = select(files.c.file_id, files.c.account_id, *(lines.c[name] for name in names))
    columns = ("file_id", "account_id", *names.values())
    return insert(row).from_select(columns, found.select_from(files.join(lines, true())))


def _rows(array: ColumnElement[Any], *columns: ColumnClause[Any]) -> TableValuedAlias:
    """Return the objects of a JSON array as rows."""
    return func.json_to_recordset(array).table_valued(*columns).render_derived(with_types=True)


def drop_spend(connection: Connection, file_ids: Sequence[str]) -> None:
    """Drop the spend and the plan usage of files that are being replaced."""
    if file_ids:
        for table in (SpendRow, PlanRow):
            connection.execute(delete(table).where(table.file_id.in_(file_ids)))
