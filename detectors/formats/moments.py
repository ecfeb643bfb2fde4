"""Times as logs write them: ISO 8601 and its common variants, or Unix times in any unit.

The years 2000 to 2100 are different numbers in seconds, milliseconds, microseconds and
nanoseconds, so a number says which unit it is in.
"""

import math
import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import msgspec

from detectors.contract import FIRST_INSTANT, LAST_INSTANT

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
FIRST_MICROSECOND: Final = (FIRST_INSTANT - EPOCH) // MICROSECOND
LAST_MICROSECOND: Final = (LAST_INSTANT - EPOCH) // MICROSECOND  # exclusive
SECOND_US: Final = 1_000_000
# Microseconds per unit; nanoseconds are a thousandth.
UNITS: Final = (SECOND_US, 1_000, 1)
NANOSECONDS: Final = 1_000  # per microsecond
NO_TIME: Final = -1  # outside the valid years

# `2026/11/02 09:00:00`, `… UTC`, `… +0000 UTC`, as programs and databases print times.
_UTC_SUFFIX: Final = re.compile(r" ?(?:UTC|GMT)\Z")
_ORDINAL: Final = re.compile(r"\A([0-9]{4})-?([0-9]{3})(?=[T ]|\Z)", re.IGNORECASE)
_ZONE: Final = r"(?=Z|[+-]|\Z)"
_END_OF_DAY: Final = re.compile(rf"[T ](24)(?::?00){{0,2}}(?:[.,]0+)?{_ZONE}", re.IGNORECASE)
_LEAP_SECOND: Final = re.compile(r"[T ][0-9]{2}:?59:?(60)", re.IGNORECASE)
_FRACTION: Final = re.compile(
    rf"[T ][0-9]{{2}}:?(?P<minutes>[0-9]{{2}})?(?P<fraction>[.,][0-9]+){_ZONE}", re.IGNORECASE
)
# `5/28/2026, 8:26:40.123 PM`, as American tables print times: the month is first.
_AMERICAN: Final = re.compile(
    r"(?P<month>[0-9]{1,2})/(?P<day>[0-9]{1,2})/(?P<year>[0-9]{4}),? (?P<hour>[0-9]{1,2}):"
    r"(?P<rest>[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?) ?(?P<half>[AP])M",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"(?:[0-9]{9,10}|[0-9]{12,13}|[0-9]{15,16}|[0-9]{18,19})(\.[0-9]+)?")


def read_instant(value: object) -> datetime:
    """Parse ISO 8601 as an instant in UTC; `ValueError` for anything else, or other years."""
    if isinstance(value, datetime):  # from Python only; JSON has no such type
        return to_utc(value)
    return to_utc(_parse_instant(value))


def _parse_instant(value: object) -> datetime:
    """Parse ISO 8601, but try RFC 3339 first.

    A text that the fast decoders accept is then the same instant here.
    """
    if not isinstance(value, str):
        raise ValueError
    try:
        return msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        pass
    # What `datetime.fromisoformat` accepts, and the forms that it does not know: ordinal dates, the
    # end of a day as `24:00`, leap seconds, and fractions of hours and minutes, which it takes for
    # fractions of a second.
    text, added, leap = _ORDINAL.sub(_calendar_date, value), timedelta(), None
    if end := _END_OF_DAY.search(text):
        text, added = f"{text[: end.start(1)]}00{text[end.end(1) :]}", timedelta(days=1)
    elif leap := _LEAP_SECOND.search(text):
        text, added = f"{text[: leap.start(1)]}59{text[leap.end(1) :]}", timedelta(seconds=1)
    elif part := _FRACTION.search(text):
        unit = timedelta(minutes=1) if part["minutes"] else timedelta(hours=1)
        text = f"{text[: part.start('fraction')]}{text[part.end('fraction') :]}"
        added = unit * float(f"0.{part['fraction'][1:]}")
    instant = datetime.fromisoformat(text) + added
    if leap and to_utc(instant).time().replace(microsecond=0) != time.min:
        raise ValueError  # there are leap seconds only at the end of a day in UTC
    return instant


def _calendar_date(ordinal: re.Match[str]) -> str:
    year, day = int(ordinal[1]), int(ordinal[2])
    found = date(year, 1, 1) + timedelta(days=day - 1)
    if found.year != year:
        raise ValueError
    return found.isoformat()


def to_utc(instant: datetime) -> datetime:
    """Convert to UTC; a time without a zone is UTC. `ValueError` outside 2000 to 2100."""
    aware = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant
    if not FIRST_INSTANT <= aware < LAST_INSTANT:
        raise ValueError
    return aware.astimezone(UTC)


def read_moment(value: object) -> datetime:
    """Parse a time as logs write it: ISO 8601, or a Unix time as a number or text."""
    if isinstance(value, str) and (number := _NUMBER.fullmatch(value)):
        value = float(value) if number[1] else int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return to_utc(_parse_text(value)) if isinstance(value, str) else read_instant(value)
    microseconds = scale(value)
    if microseconds == NO_TIME:
        raise ValueError
    return to_utc(EPOCH + timedelta(microseconds=microseconds))


def find_microseconds(value: object) -> int | None:
    """Return one value of a column of objects in microseconds since 1970; None if it is no time."""
    try:
        return (read_moment(value) - EPOCH) // MICROSECOND
    except (ValueError, OverflowError):
        return None


def read_any_moment(value: object) -> datetime | int | float:
    """Parse a time without checking its range: another field may have the call's time."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _parse_text(value)
    return value


def _parse_text(text: object) -> datetime:
    """Parse ISO 8601, or a text that differs from it in slashes, spaces, or the name of UTC."""
    with suppress(ValueError):
        return _parse_instant(text)
    if not isinstance(text, str):
        raise ValueError
    if found := _AMERICAN.fullmatch(text):
        hour = int(found["hour"]) % 12 + (12 if found["half"] in "pP" else 0)
        day = f"{found['year']}-{int(found['month']):02d}-{int(found['day']):02d}"
        return _parse_instant(f"{day}T{hour:02d}:{found['rest']}")
    text = _UTC_SUFFIX.sub("", text.replace("/", "-"))
    return _parse_instant(text.replace(" +", "+").replace(" -", "-"))


def scale(number: float) -> int:
    """Convert a Unix time in any unit to microseconds; `NO_TIME` outside 2000 to 2100."""
    if not math.isfinite(number):
        return NO_TIME
    for unit in UNITS:
        if FIRST_MICROSECOND <= number * unit < LAST_MICROSECOND:
            return round(number * unit)
    if FIRST_MICROSECOND * NANOSECONDS <= number < LAST_MICROSECOND * NANOSECONDS:
        return int(number) // NANOSECONDS
    return NO_TIME
