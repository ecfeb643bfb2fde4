"""What an audit of totals reads: reported usage of the last days by key, model, tier and day."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from sqlalchemy import extract, func, select

from service.models.base import Executor
from service.models.connections.bill import TOKENS, Days, is_last_word
from service.models.connections.connections import ProviderConnection
from service.models.connections.reported import ReportedName, ReportedUsage

COUNTS = (*TOKENS, "cache_write_1h_tokens", "requests")


def sum_by_key(session: Executor, account_id: str, provider: str, days: Days) -> Sequence[Any]:
    """Return counts by project, key, model, tier, context and region of each day."""
    table = ReportedUsage
    labels = (table.day, table.project_id, table.key_id, table.model)
    labels = (*labels, table.tier, table.context, table.region)  # type: ignore[assignment]
    sums = [func.sum(getattr(table, name)).label(name) for name in COUNTS]
    query = select(*labels, *sums)
    query = query.join(ProviderConnection, ProviderConnection.id == table.connection_id)
    mine = (table.account_id == account_id, ProviderConnection.provider == provider)
    within = (table.day.between(*days), table.is_hourly.is_(False), table.model != "")
    query = query.where(*mine, *within, is_last_word(table))
    return session.execute(query.group_by(*labels)).all()


def sum_by_hour(session: Executor, account_id: str, provider: str) -> Sequence[Any]:
    """Return the tokens of each key and model by hour of the day, and its hours, of a week."""
    table = ReportedUsage
    hour = extract("hour", table.bucket_at).label("hour")
    tokens = func.sum(table.prompt_tokens + table.completion_tokens).label("tokens")
    # An hour may have several rows: by context, say, or region.
    sums = (tokens, func.count(table.bucket_at.distinct()).label("buckets"))
    query = select(table.project_id, table.key_id, table.model, hour, *sums)
    query = query.join(ProviderConnection, ProviderConnection.id == table.connection_id)
    mine = (table.account_id == account_id, ProviderConnection.provider == provider)
    within = (table.is_hourly, table.tier == "", table.model != "")
    labels = (table.project_id, table.key_id, table.model, hour)
    return session.execute(query.where(*mine, *within).group_by(*labels)).all()


def list_unused_keys(
    session: Executor, account_id: str, provider: str, since: date
) -> Sequence[Any]:
    """Return the keys that work and that used nothing since a day.

    A connection that was removed, fails or was never pulled can't know that.
    """
    used = select(ReportedUsage.key_id).where(
        ReportedUsage.account_id == account_id, ReportedUsage.day >= since
    )
    query = select(ReportedName.name_id, ReportedName.name, ReportedName.parent_id)
    query = query.join(ProviderConnection, ProviderConnection.id == ReportedName.connection_id)
    mine = (ReportedName.account_id == account_id, ProviderConnection.provider == provider)
    knows = (
        ProviderConnection.removed_at.is_(None),
        ProviderConnection.failing_since.is_(None),
        ProviderConnection.pulled_at.is_not(None),
    )
    unused = (
        *knows,
        ReportedName.kind == "key",
        ReportedName.is_active,
        ReportedName.name_id.not_in(used),
    )
    return session.execute(query.where(*mine, *unused).order_by(ReportedName.name)).all()
