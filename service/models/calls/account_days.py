"""Whose days an account's figures have: those of the time zone that it has chosen, or UTC.

Spend is stored by both. A file of calls is summed again when the zone changes, and a page must not
mix days of two zones. So days are UTC until all files have those of the zone: their rows say so,
and no flag could be wrong.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, cached_property
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import Select, and_, bindparam, exists, literal, or_, select

from service.core.time_zones import UTC_NAME, list_zones
from service.models.base import Executor, utc_now
from service.models.calls.call_files import CallFile, is_lost, zone_of_spend
from service.models.identity.accounts import Account

_DAY: Final = timedelta(days=1)


class _Chosen(NamedTuple):
    chosen: str | None = None
    is_counted: bool = True  # all calls that are kept
    has_calls: bool = True  # False if all spend is by UTC day, and always will be


class AccountDays(_Chosen):
    """The zone that an account has chosen, and whether its calls are counted by that zone's days.

    This machine may know fewer zones than the one on which it was chosen.
    """

    @cached_property
    def is_local(self) -> bool:
        return bool(self.chosen) and self.is_counted and self.chosen in list_zones()

    @property
    def is_pending(self) -> bool:
        """Return True if a zone is chosen, and days are UTC."""
        return bool(self.chosen) and not self.is_local

    @property
    def pending_words(self) -> str:
        """Return why days are UTC, although a zone is chosen."""
        if self.has_calls:
            return f"Days are UTC until your calls are counted again by {self.chosen_words}."
        return f"Days are UTC, because no stored calls have days of {self.chosen_words}."

    @property
    def zone(self) -> str | None:
        """Return the zone of the days; None for UTC."""
        return self.chosen if self.is_local else None

    @property
    def name(self) -> str:
        return self.zone or UTC_NAME

    @property
    def words(self) -> str:
        """Return whose days they are, as pages say it: "UTC" or "Berlin time"."""
        return name_days(self.zone)

    @property
    def chosen_words(self) -> str:
        return name_days(self.chosen)

    def day(self, when: datetime) -> date:
        """Return the day of a time."""
        return when.astimezone(self._info).date()

    def today(self) -> date:
        return self.day(utc_now())

    def begin(self, day: date) -> datetime:
        """Return the time at which a day begins."""
        return datetime.combine(day, time(), self._info).astimezone(UTC)

    @property
    def _info(self) -> Any:
        return ZoneInfo(self.zone) if self.zone else UTC


IN_UTC: Final = AccountDays()


def name_days(zone: str | None) -> str:
    """Name the days of a zone by its city; those of UTC are UTC."""
    if not zone or zone == UTC_NAME:
        return UTC_NAME
    return f"{zone.rpartition('/')[2].replace('_', ' ')} time"


def list_zones_used(session: Executor) -> Sequence[str]:
    """Return the zones that accounts have chosen."""
    query = select(Account.time_zone).where(Account.time_zone.is_not(None)).distinct()
    return [zone for (zone,) in session.execute(query) if zone]


def find_days(session: Executor, account_id: str) -> AccountDays:
    """Return whose days the figures of an account have."""
    query = select(Account.time_zone).where(Account.id == account_id)
    return find_days_in(session, account_id, session.execute(query).scalar_one_or_none())


def find_days_in(session: Executor, account_id: str, zone: str | None) -> AccountDays:
    """Return whose days the figures of an account with this zone have."""
    if zone is None:
        return IN_UTC
    row = session.execute(_others_query(), {"account_id": account_id, "zone": zone}).one()
    has_calls = row.own or not row.utc
    return AccountDays(zone, has_calls and not (row.live or row.purged), has_calls)


@cache
def _others_query() -> Select[bool, bool, bool, bool]:
    """Check whether a live file, or one whose calls were purged, has days of another zone.

    Those of a purged file may be in UTC, because nothing says any more which others they were. So
    are those of spend that providers report. Where an account has no other spend, its days are UTC.
    """
    zone: Any = bindparam("zone")
    # Two ranges of an index, which one condition for inequality would not be.
    of_file = zone_of_spend()
    is_other = or_(of_file < zone, of_file > zone)
    own = CallFile.account_id == bindparam("account_id")
    live = exists().where(own, CallFile.replaced_at.is_(None))
    purged = exists().where(own, CallFile.purged_at.is_not(None))
    return select(
        live.where(is_other).label("live"),
        purged.where(is_other, of_file > literal("")).label("purged"),
        or_(live, purged.where(of_file == zone)).label("own"),
        purged.where(of_file == literal("")).label("utc"),
    )


def has_purged_days(session: Executor, account_id: str) -> bool:
    """Check whether spend of purged calls has days of a zone, which a change of it would lose."""
    found = exists().where(
        CallFile.account_id == account_id,
        CallFile.purged_at.is_not(None),
        zone_of_spend() > literal(""),
    )
    return bool(session.execute(select(found)).scalar_one())


def has_utc_days(
    session: Executor, account_id: str, zone: str | None, days: tuple[date, date]
) -> bool:
    """Check whether spend without kept calls, which has UTC days alone, is on some days of a zone.

    It is of purged calls, of files that are lost, and what providers report beyond the calls.
    """
    if zone is None:
        return False
    is_purged, is_live = CallFile.purged_at.is_not(None), CallFile.replaced_at.is_(None)
    found = exists().where(
        CallFile.account_id == account_id,
        or_(
            and_(is_purged, zone_of_spend() != literal(zone)),
            and_(or_(is_purged, is_live), is_lost()),
        ),
        CallFile.first_day <= days[1] + _DAY,
        CallFile.last_day >= days[0] - _DAY,
    )
    return bool(session.execute(select(found)).scalar_one())
