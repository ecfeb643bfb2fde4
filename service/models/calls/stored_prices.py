"""Which files of calls have the spend of earlier prices, and their spend at other prices."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, func, literal, select, update

from detectors.contract import DailySpend
from service.models.audits.audit_settings import AuditSettings
from service.models.calls.call_files import CallFile, zone_of_spend
from service.models.calls.daily_spend import PlanRow, SpendRow, add_spend, drop_spend
from service.models.identity.accounts import Account

_LIVE: Final = CallFile.replaced_at.is_(None)


class Priced(NamedTuple):
    """The name of the prices of a file's spend, and a digest of the rates of its models."""

    priced_with: str
    rates: str


def list_outdated_accounts(connection: Connection, version: str, limit: int) -> Sequence[str]:
    """Return accounts with files whose spend may have other prices than those of this version.

    It is the price book's; an account's own terms and its zone are part of the name of its prices,
    and files whose calls were purged have days of another zone.
    """
    terms = func.md5(func.coalesce(AuditSettings.price_terms, ""))
    current = func.concat_ws("|", version, terms, Account.time_zone)
    query = (
        select(CallFile.account_id)
        .join(Account, Account.id == CallFile.account_id)
        .outerjoin(AuditSettings, AuditSettings.account_id == CallFile.account_id)
        .where(_LIVE, CallFile.priced_with.is_distinct_from(current))
    )
    zone = func.coalesce(Account.time_zone, "")
    purged = select(CallFile.account_id).join(Account, Account.id == CallFile.account_id)
    purged = purged.where(*_of_other_zone(zone))
    return connection.scalars(query.union(purged).limit(limit)).all()


def list_outdated_files(
    connection: Connection, account_id: str, priced_with: str
) -> Sequence[Row[Any]]:
    """Return the live files whose spend may have other prices, newest first."""
    is_other = CallFile.priced_with.is_distinct_from(priced_with)
    query = select(CallFile).where(CallFile.account_id == account_id, _LIVE, is_other)
    return connection.execute(query.order_by(CallFile.last_day.desc(), CallFile.id)).all()


def drop_old_days(connection: Connection, account_id: str, zone: str) -> int:
    """Give the spend of purged calls UTC days where it has days of another zone than this.

    Return the number of files. No call says any more which day of this zone it was on.
    """
    query = select(CallFile.id).where(CallFile.account_id == account_id, *_of_other_zone(zone))
    for file_id in (found := connection.scalars(query).all()):
        for table in (SpendRow, PlanRow):
            own = update(table).where(table.file_id == file_id, table.day_shift != 0)
            connection.execute(own.values(day_shift=0))
        prices = func.concat_ws(
            "|", *(func.split_part(CallFile.priced_with, "|", part) for part in (1, 2))
        )
        connection.execute(
            update(CallFile).where(CallFile.id == file_id).values(priced_with=prices)
        )
    return len(found)


def _of_other_zone(zone: Any) -> tuple[ColumnElement[bool], ...]:
    """Match files of purged calls whose spend has days of another zone than this, or UTC."""
    of_file = zone_of_spend()
    return (CallFile.purged_at.is_not(None), of_file > literal(""), of_file != zone)


def zone_of(file: Row[Any]) -> str:
    """Return the zone of the days of a file's spend, "" for UTC."""
    return "".join((file.priced_with or "").split("|")[2:])


def list_models(connection: Connection, file_id: str) -> Sequence[tuple[str, str]]:
    """Return the provider and the model of each call in the spend or plan usage of a file."""
    query = select(SpendRow.provider, SpendRow.model).where(SpendRow.file_id == file_id)
    plans = select(PlanRow.provider, PlanRow.model).where(PlanRow.file_id == file_id)
    return [(row[0], row[1]) for row in connection.execute(query.union(plans))]


def mark_priced(connection: Connection, file_id: str, priced: Priced) -> bool:
    """Note the prices of a file's spend; return False if the file no longer is live."""
    statement = update(CallFile).where(CallFile.id == file_id, _LIVE).values(priced._asdict())
    return connection.execute(statement).rowcount == 1


def replace_spend(
    connection: Connection, file: Row[Any], priced: Priced, spend: Sequence[DailySpend]
) -> bool:
    """Replace the spend of a file; return False if the file no longer is live.

    The file's row is locked first, so that compaction drops the old or the new spend, and all of
    it.
    """
    if not mark_priced(connection, file.id, priced):
        return False
    drop_spend(connection, [file.id])
    add_spend(connection, [(file.id, file.account_id, spend)])
    return True
