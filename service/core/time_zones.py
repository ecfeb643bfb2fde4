"""Times in the zone that a person has chosen; `account_days` has the days."""

from datetime import UTC, datetime
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from detectors.wording.figures import day

UTC_NAME: Final = "UTC"
# Zones without a place, and names that the database of zones keeps for old programs.
_OTHERS: Final = ("Etc/", "SystemV/", "posix/", "right/")


@cache
def list_zones() -> tuple[str, ...]:
    """Return the names of the zones that this machine knows, with UTC first."""
    names = (each for each in available_timezones() if "/" in each)
    return (UTC_NAME, *sorted(each for each in names if not each.startswith(_OTHERS)))


def minute(when: datetime, zone: str | None = None) -> str:
    """Format a time as text, with whose it is: Nov 22, 2026, 15:05 CET."""
    when, abbreviation = when.astimezone(UTC), UTC_NAME
    # Another machine may know fewer zones.
    if zone and zone != UTC_NAME and zone in list_zones():
        when = when.astimezone(ZoneInfo(zone))
        abbreviation = when.tzname() or UTC_NAME
        if abbreviation[0] in "+-":  # of places whose time has no name
            abbreviation = f"{UTC_NAME}{abbreviation}"
    return f"{day(when)}, {when.hour:02}:{when.minute:02} {abbreviation}"
