"""The spend that providers report and no call covers: lines of `daily_spend` without a call file.

Their file is one that nothing reads: like a file whose calls were purged, it keeps its spend and is
never merged, repriced or audited. So everything that sums spend has them, and each token once.
"""

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from detectors.contract import DailySpend
from service.models.audits.audit_settings import AuditSettings
from service.models.base import Executor, utc_now
from service.models.calls.call_files import DAY, CallFile
from service.models.calls.daily_spend import SpendDay, SpendRow, add_spend
from service.models.connections.connections import ProviderConnection

SOURCE: Final = "provider reports"  # their environment
NOT_SENT: Final = "not sent"  # how their routes begin
PRICED: Final = "priced"  # the part of a connection's progress that says at which prices
_PREFIX: Final = "reported-"
_AT_MOST_EVERY: Final = timedelta(minutes=1)


def _file_id(account_id: str, provider: str) -> str:
    return f"{_PREFIX}{account_id}-{provider}"


def is_counted() -> ColumnElement[bool]:
    """Match the spend of calls."""
    return SpendRow.file_id.not_like(f"{_PREFIX}%")


def replace_unsent(
    connection: Connection,
    account_id: str,
    provider: str,
    spend: Sequence[DailySpend],
    since: date = date.min,
) -> None:
    """Replace what a provider reports beyond the calls of an account; days before `since` stay."""
    file_id = _file_id(account_id, provider)
    own = SpendRow.file_id == file_id
    connection.execute(delete(SpendRow).where(own, SpendRow.day >= since))
    values = {
        "id": file_id,
        "account_id": account_id,
        "blob_key": "",
        "level": DAY,
        "first_day": since,
        "last_day": since,
        "calls": 0,
        "bytes": 0,
        "replaced_at": func.now(),
        "purged_at": func.now(),
    }
    connection.execute(insert(CallFile).values(values).on_conflict_do_nothing())
    add_spend(connection, [(file_id, account_id, spend)])
    days = func.min(SpendRow.day), func.max(SpendRow.day)
    sums = select(func.count(), *days, func.sum(SpendRow.calls)).where(own)
    lines, first, last, calls = connection.execute(sums).one()
    if not lines:
        drop_unsent(connection, account_id, provider)
        return
    kept = update(CallFile).where(CallFile.id == file_id)
    connection.execute(kept.values(first_day=first, last_day=last, calls=calls))


def delete_old_unsent(connection: Connection, days: int, limit: int) -> int:
    """Delete lines of days so many days ago; their file goes on, unlike one of calls."""
    is_old = SpendRow.day < utc_now().date() - timedelta(days=days)
    some = select(SpendRow.id).where(SpendRow.file_id.like(f"{_PREFIX}%"), is_old).limit(limit)
    return connection.execute(delete(SpendRow).where(SpendRow.id.in_(some))).rowcount


def drop_unsent(connection: Executor, account_id: str, provider: str) -> None:
    file_id = _file_id(account_id, provider)
    connection.execute(delete(SpendRow).where(SpendRow.file_id == file_id))
    connection.execute(delete(CallFile).where(CallFile.id == file_id))


def sum_unsent(session: Executor, account_id: str, days: tuple[date, date]) -> Decimal:
    """Return the dollars of these days that providers report and no call covers.

    They have UTC days alone.
    """
    mine = (SpendDay.account_id == account_id, SpendDay.file_id.like(f"{_PREFIX}%"))
    query = select(func.coalesce(func.sum(SpendDay.cost_usd), 0))
    return Decimal(session.execute(query.where(*mine, SpendDay.day.between(*days))).scalar_one())


def has_unpriced(
    session: Executor, account_id: str, days: tuple[date, date], priced: Sequence[str]
) -> bool:
    """Check whether providers report tokens of these days that have no known price.

    Those whose reports have prices of their own are given.
    """
    own = (CallFile.account_id == account_id, CallFile.id.like(f"{_PREFIX}%"))
    files = session.execute(select(CallFile.id).where(*own)).scalars().all()
    if not files:  # so that no line is read
        return False
    unpriced = (
        SpendRow.account_id == account_id,
        SpendRow.file_id.in_(files),
        SpendRow.day.between(*days),
        SpendRow.list_usd == 0,
        SpendRow.prompt_tokens + SpendRow.completion_tokens > 0,
        # What a plan includes costs nothing in dollars of the report's own.
        SpendRow.file_id.not_in([_file_id(account_id, name) for name in priced]),
    )
    return bool(session.execute(select(exists().where(*unpriced))).scalar_one())


def mark_filled(connection: Connection, account_id: str, provider: str) -> None:
    filled = update(ProviderConnection).where(
        ProviderConnection.account_id == account_id, ProviderConnection.provider == provider
    )
    connection.execute(filled.values(filled_at=func.now()))


def wake_outdated(connection: Connection, version: str) -> int:
    """Let connections be due whose account has got calls since the spend was compared.

    So are those whose usage has other prices than those of this version and the account's terms.
    Return their number.
    """
    newer = exists().where(
        CallFile.account_id == ProviderConnection.account_id,
        CallFile.created_at > ProviderConnection.filled_at,
        CallFile.replaced_at.is_(None),
    )
    is_waiting = or_(
        ProviderConnection.next_pull_at.is_(None), ProviderConnection.next_pull_at > func.now()
    )
    is_old = ProviderConnection.filled_at < func.now() - _AT_MOST_EVERY
    # A provider that fails is not asked sooner; its connection compares at its next try.
    terms = select(AuditSettings.price_terms).where(
        AuditSettings.account_id == ProviderConnection.account_id
    )
    current = func.concat(version, "|", func.md5(func.coalesce(terms.scalar_subquery(), "")))
    priced_with = ProviderConnection.progress[PRICED]["with"].astext
    is_outdated = or_(newer, priced_with.is_distinct_from(current))
    due = and_(is_old, is_waiting, ProviderConnection.failing_since.is_(None), is_outdated)
    changed = update(ProviderConnection).where(due).values(next_pull_at=func.now())
    return connection.execute(changed).rowcount
