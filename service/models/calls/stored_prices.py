"""Which files of calls have the spend of earlier prices, and their spend at other prices."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Row,
    Text,
    any_,
    exists,
    func,
    literal,
    or_,
    select,
    update,
)

from detectors.contract import DailySpend
from service.core.time_zones import list_zones
from service.models.audits.audit_settings import AuditSettings
from service.models.calls.call_files import LOST, CallFile, zone_of_spend
from service.models.calls.daily_spend import PlanRow, SpendRow, add_spend, drop_spend
from service.models.identity.accounts import Account

_LIVE: Final = CallFile.replaced_at.is_(None)
# The zone of a file whose lines are given UTC days, until all of them have those.
_CHANGING: Final = "none"
_LINES_AT_ONCE: Final = 10_000


class Priced(NamedTuple):
    """The name of the prices of a file's spend, and a digest of the rates of its models."""

    priced_with: str
    rates: str


def list_outdated_accounts(connection: Connection, version: str, limit: int) -> Sequence[str]:
    """Return accounts with files whose spend may have other prices than those of this version.

    It is the price book's; an account's own terms and its zone are part of the name of its prices,
    and files whose calls were purged have days of another zone. A zone that this machine doesn't
    know is in no name that its worker writes, and lost files wait for the next try.
    """
    terms = func.md5(func.coalesce(AuditSettings.price_terms, ""))
    current = func.concat_ws("|", version, terms, Account.time_zone)
    without = func.concat_ws("|", version, terms)
    zones = literal(list(list_zones()), ARRAY(Text))
    is_known = or_(Account.time_zone.is_(None), Account.time_zone == any_(zones))
    name = CallFile.priced_with
    found = func.regexp_replace(name, rf"\|\|?{LOST}$", "")
    query = (
        select(CallFile.account_id)
        .join(Account, Account.id == CallFile.account_id)
        .outerjoin(AuditSettings, AuditSettings.account_id == CallFile.account_id)
        .where(
            _LIVE,
            name.is_distinct_from(current),
            found.is_distinct_from(current),
            or_(is_known, found.is_distinct_from(without)),
        )
    )
    zone = func.coalesce(Account.time_zone, "")
    purged = select(CallFile.account_id).join(Account, Account.id == CallFile.account_id)
    purged = purged.where(*_of_other_zone(zone), is_known)
    return connection.scalars(query.union(purged).limit(limit)).all()


def list_outdated_files(
    connection: Connection, account_id: str, priced_with: str
) -> Sequence[Row[Any]]:
    """Return the live files whose spend may have other prices, newest first."""
    is_other = CallFile.priced_with.is_distinct_from(priced_with)
    query = select(CallFile).where(CallFile.account_id == account_id, _LIVE, is_other)
    return connection.execute(query.order_by(CallFile.last_day.desc(), CallFile.id)).all()


def list_old_days(connection: Connection, account_id: str, zone: str) -> Sequence[str]:
    """Return the files of purged calls whose spend has days of another zone than the account's.

    There are none if the account's zone isn't this, which the worker may have read long ago, or
    replaced because it doesn't know it.
    """
    query = select(CallFile.id).where(CallFile.account_id == account_id, *_of_other_zone(zone))
    return connection.scalars(query.where(_has_zone(zone)).order_by(CallFile.id)).all()


def begin_utc_days(connection: Connection, file_id: str, zone: str) -> bool:
    """Have the spend of a file in `list_old_days` get UTC days; return False if it no longer may.

    No call says any more which day of the zone it was on. Until all lines have UTC days, the name
    of the file's prices has no account's zone.
    """
    own = update(CallFile).where(CallFile.id == file_id, *_of_other_zone(zone), _has_zone(zone))
    changed = own.values(priced_with=func.concat(_without_zone(), "|", _CHANGING))
    return connection.execute(changed).rowcount == 1


def give_utc_days(connection: Connection, file_id: str) -> bool:
    """Give some lines of a file UTC days; return False once all have them, and the file says so."""
    for table in (SpendRow, PlanRow):
        own = select(table.id).where(table.file_id == file_id, table.day_shift != 0)
        some = update(table).where(table.id.in_(own.limit(_LINES_AT_ONCE)))
        if connection.execute(some.values(day_shift=0)).rowcount:
            return True
    named = update(CallFile).where(CallFile.id == file_id)
    connection.execute(named.values(priced_with=_without_zone()))
    return False


def _without_zone() -> ColumnElement[str]:
    parts = (func.split_part(CallFile.priced_with, "|", part) for part in (1, 2))
    return func.concat_ws("|", *parts)


def _has_zone(zone: str) -> ColumnElement[bool]:
    is_own = func.coalesce(Account.time_zone, "") == zone
    return exists().where(Account.id == CallFile.account_id, is_own)


def _of_other_zone(zone: Any) -> tuple[ColumnElement[bool], ...]:
    """Match files of purged calls whose spend has days of another zone than this, or UTC."""
    of_file = zone_of_spend()
    return (CallFile.purged_at.is_not(None), of_file > literal(""), of_file != zone)


def zone_of(file: Row[Any]) -> str:
    """Return the zone of the days of a file's spend, "" for UTC."""
    return "".join((file.priced_with or "").split("|")[2:3])


def list_models(connection: Connection, file_id: str) -> Sequence[tuple[str, str]]:
    """Return the provider and the model of each call in the spend or plan usage of a file."""
    query = select(SpendRow.provider, SpendRow.model).where(SpendRow.file_id == file_id)
    plans = select(PlanRow.provider, PlanRow.model).where(PlanRow.file_id == file_id)
    return [(row[0], row[1]) for row in connection.execute(query.union(plans))]


def mark_priced(connection: Connection, file_id: str, priced: Priced) -> bool:
    """Note the prices of a file's spend; return False if the file no longer is live."""
    statement = update(CallFile).where(CallFile.id == file_id, _LIVE).values(priced._asdict())
    return connection.execute(statement).rowcount == 1


def mark_lost(connection: Connection, file: Row[Any], key: str, zone: str) -> bool:
    """Note that a live file has no blob, and give its spend UTC days.

    Return False if it no longer is live. So one file can't keep the account's days in UTC. It is
    tried again with other files.
    """
    version, terms = key.split("|")[:2]
    named = {"priced_with": f"{version}|{terms}|{zone}|{LOST}", "rates": None}
    changed = update(CallFile).where(CallFile.id == file.id, _LIVE).values(named)
    if connection.execute(changed).rowcount != 1:
        return False
    for table in (SpendRow, PlanRow):
        own = update(table).where(table.file_id == file.id, table.day_shift != 0)
        connection.execute(own.values(day_shift=0))
    return True


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
