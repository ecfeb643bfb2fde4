"""Converts texts or Python objects to microseconds since 1970 in UTC.

`sql` is an expression that DuckDB and Spark both understand. It reads the extended form of
ISO 8601: a date, or a date and a time with or without seconds, decimals of a second and an offset
from UTC. It uses numbers only, because casts to timestamps depend on the session's time zone.
"""

from typing import Final

import narwhals.stable.v2 as nw

from detectors.engines.engine import Calls
from detectors.formats.moments import EPOCH, MICROSECOND, read_moment

_TWO: Final = "[0-9][0-9]"
_CLOCK: Final = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,9})?)?"
_OFFSET: Final = "([Zz]|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
PATTERN: Final = f"^[0-9]{{4}}-{_TWO}-{_TWO}([Tt ]{_CLOCK}{_OFFSET}?)?$"


# Texts that only count units since 1970, by their length.
_NUMBER: Final = "^([0-9]{9,10}|[0-9]{12,13}|[0-9]{15,16}|[0-9]{18,19})$"


def with_plain_texts(table: Calls) -> Calls:
    """Rewrite times with slashes, a named UTC or a space before the offset as ISO 8601."""
    plain = nw.col("ts").str.replace_all("/", "-", literal=True)
    plain = plain.str.replace_all(" ?(UTC|GMT)$", "")
    for sign in "+-":
        plain = plain.str.replace_all(f" {sign}", sign, literal=True)
    return table.with_columns(plain.alias("ts"))


def text_sql(column: str, days: str, matches: str) -> str:
    """Return the expression for any text; `matches` tests `{0}` against the pattern `{1}`."""
    number = f"TRY_CAST({column} AS BIGINT)"
    return (
        f"CASE WHEN {matches.format(column, _NUMBER)} THEN CASE"
        f" WHEN length({column}) < 11 THEN {number} * 1000000"
        f" WHEN length({column}) < 14 THEN {number} * 1000"
        f" WHEN length({column}) < 17 THEN {number}"
        f" ELSE TRY_CAST(substr({column}, 1, length({column}) - 3) AS BIGINT) END"
        f" WHEN {matches.format(column, PATTERN)} THEN {sql(column, days)} END"
    )


def sql(column: str, days: str) -> str:
    """Return the expression for a column; `days` converts a date `{}` to days since 1970."""
    parts = {
        "hours": _number(column, "^.{11}([0-9]{2}):"),
        "minutes": _number(column, "^.{13}:([0-9]{2})"),
        "seconds": _number(column, "^.{16}:([0-9]{2})"),
        # The seventh decimal decides the rounding.
        "carry": _number(column, "[.,][0-9]{6}([5-9])", "CASE WHEN {} > 0 THEN 1 ELSE 0 END"),
    }
    decimals = f"CAST(rpad(regexp_extract({column}, '[.,]([0-9]{{1,6}})', 1), 6, '0') AS BIGINT)"
    offset = (
        f"(CASE WHEN {column} LIKE '%-__' OR {column} LIKE '%-__:__' OR {column} LIKE '%-____' "
        "THEN -60 ELSE 60 END) * "
        f"({_number(column, '^.{16,}[+-]([0-9]{2}):?([0-9]{2})?$')} * 60"
        f" + {_number(column, '^.{16,}[+-][0-9]{2}:?([0-9]{2})$')})"
    )
    date = days.format(f"substr({column}, 1, 10)")
    seconds = (
        f"{date} * 86400 + {parts['hours']} * 3600 + {parts['minutes']} * 60 + {parts['seconds']}"
        f" - {offset}"
    )
    return f"({seconds}) * 1000000 + {decimals} + {parts['carry']}"


def _number(column: str, pattern: str, form: str = "{}") -> str:
    """Return the captured digits as a number, 0 if there are none."""
    return form.format(f"CAST(concat('0', regexp_extract({column}, '{pattern}', 1)) AS BIGINT)")


def find_microseconds(value: object) -> int | None:
    """Return one value of a column of Python objects in microseconds; None if it is not a time."""
    try:
        return (read_moment(value) - EPOCH) // MICROSECOND
    except (ValueError, OverflowError):
        return None
