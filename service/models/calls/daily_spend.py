"""Spend by day of call, route, provider, model and environment, for each call file.

The spend of an account is the sum over its live files, so it changes in the same transaction as
the catalog. Charts and exports read this table and never a report or a call.
"""

from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Final

import msgspec
from sqlalchemy import BigInteger, Connection, ForeignKey, Index, Numeric, delete, insert
from sqlalchemy.orm import Mapped, mapped_column

from detectors.contract import DailySpend
from service.models.base import Base

_USD: Final = Numeric(30, 9)


class SpendRow(Base):
    """One line of the spend of one file."""

    __tablename__ = "daily_spend"
    __table_args__ = (
        # Both contain the sums of pages, which so read no more than the index of their days.
        Index(
            "ix_daily_spend_account_labels",
            *("account_id", "day"),
            postgresql_include=("route", "provider", "model", "environment", "calls", "cost_usd"),
        ),
        Index(
            "ix_daily_spend_account_route",
            *("account_id", "route", "day"),
            postgresql_include=("calls", "cost_usd"),
        ),
    )

    # Labels are too long for a key of their own.
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    file_id: Mapped[str] = mapped_column(
        ForeignKey("call_files.id", ondelete="CASCADE"), index=True
    )
    day: Mapped[date]
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
    cost_usd: Mapped[Decimal] = mapped_column(_USD)
    list_usd: Mapped[Decimal] = mapped_column(_USD)


class SpendDay(Base):
    """The calls and dollars of one file on one day.

    Triggers of `daily_spend` keep this table, so that a process of the previous release does, too.
    """

    __tablename__ = "spend_days"
    __table_args__ = (
        Index("ix_spend_days_account", "account_id", "day", postgresql_include=("cost_usd",)),
    )

    file_id: Mapped[str] = mapped_column(
        ForeignKey("call_files.id", ondelete="CASCADE"), primary_key=True
    )
    day: Mapped[date] = mapped_column(primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    calls: Mapped[int] = mapped_column(BigInteger)
    cost_usd: Mapped[Decimal] = mapped_column(_USD)


class SpendGroup(Base):
    """The calls and dollars of one file on one day that have one value of one label.

    Pages that group by a single label read these few rows; the same triggers keep them.
    """

    __tablename__ = "spend_groups"
    __table_args__ = (
        Index(
            "ix_spend_groups_account",
            *("account_id", "label", "day"),
            postgresql_include=("value", "calls", "cost_usd"),
        ),
        Index(
            "ix_spend_groups_value",
            *("account_id", "label", "value", "day"),
            postgresql_include=("calls", "cost_usd"),
        ),
    )

    file_id: Mapped[str] = mapped_column(
        ForeignKey("call_files.id", ondelete="CASCADE"), primary_key=True
    )
    day: Mapped[date] = mapped_column(primary_key=True)
    label: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    calls: Mapped[int] = mapped_column(BigInteger)
    cost_usd: Mapped[Decimal] = mapped_column(_USD)


def add_spend(
    connection: Connection, spend: Iterable[tuple[str, str, Sequence[DailySpend]]]
) -> None:
    """Add the spend of some files, each with its ID and its account."""
    rows = [
        {"file_id": file_id, "account_id": account_id, **msgspec.structs.asdict(line)}
        for file_id, account_id, lines in spend
        for line in lines
    ]
    if rows:
        connection.execute(insert(SpendRow), rows)


def drop_spend(connection: Connection, file_ids: Sequence[str]) -> None:
    """Drop the spend of files that are being replaced."""
    if file_ids:
        connection.execute(delete(SpendRow).where(SpendRow.file_id.in_(file_ids)))
