"""How numbers and dates are written for people: dollars, percentages, counts, days."""

from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

_CENT: Final = Decimal("0.01")
_DOLLAR: Final = Decimal(1)
_SMALLEST_USD: Final = Decimal("0.0001")
_LEAST_WHOLE_USD: Final = Decimal("9.995")
# Not `strftime`, whose names depend on the locale.
_MONTH_NAMES: Final = ("January", "February", "March", "April", "May", "June", "July",
                       "August", "September", "October", "November", "December")  # fmt: skip
_MONTHS: Final = tuple(name[:3] for name in _MONTH_NAMES)
_THOUSANDS: Final = ((10**15, "Q"), (10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))
_BYTES: Final = ((10**15, "PB"), (10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "KB"))


def usd(amount: Decimal | float) -> str:
    """Format as $1,234.56, for money that was spent or saved.

    An amount too small for cents keeps its leading digits.
    """
    if amount < 0:
        return f"−{usd(-amount)}"
    if 0 < amount < _CENT:
        return f"${float(amount):.2g}" if amount >= _SMALLEST_USD else "< $0.0001"
    return f"${_round(amount, _CENT):,.2f}"


def _round(amount: Decimal | float, unit: Decimal) -> Decimal:
    """Round as people do: half of a unit up."""
    exact = amount if isinstance(amount, Decimal) else Decimal(str(amount))
    return exact.quantize(unit, ROUND_HALF_UP)


def whole_usd(amount: Decimal) -> str:
    """Format as $1,235, for money that is forecast, projected or could be saved.

    Its cents mean nothing; amounts under $10 keep them.
    """
    if amount < 0:
        return f"−{whole_usd(-amount)}"
    return usd(amount) if amount < _LEAST_WHOLE_USD else f"${_round(amount, _DOLLAR):,}"


def as_usd(amount: Decimal) -> Decimal:
    """Return the amount that `usd` prints, so that what stands side by side adds up."""
    return amount if abs(amount) < _CENT else _round(amount, _CENT)


def as_whole_usd(amount: Decimal) -> Decimal:
    """Return the amount that `whole_usd` prints."""
    return as_usd(amount) if abs(amount) < _LEAST_WHOLE_USD else _round(amount, _DOLLAR)


def fine_usd(amount: Decimal) -> str:
    """Format as $1,234.56 or, under a dollar, with up to six decimals, so that sums add up."""
    if amount < 0:
        return f"−{fine_usd(-amount)}"
    if amount >= 1:
        return usd(amount)
    return _six_decimals(amount)


def _six_decimals(amount: Decimal) -> str:
    whole, _, decimals = f"{amount:,.6f}".partition(".")
    return f"${whole}.{decimals.rstrip('0').ljust(2, '0')}"


def short_usd(amount: float) -> str:
    """Format as $1.2M, for axes and other narrow spaces."""
    if amount >= 1_000:
        return f"${short_number(amount)}"
    if amount >= 10 or amount == 0:
        return f"${amount:.0f}"
    return f"${amount:.2f}" if amount >= 0.1 else f"${Decimal(f'{amount:.2g}'):f}"


def rate(usd_per_mtok: Decimal | float) -> str:
    """Format dollars per million tokens with the decimals that price lists use: $2.50, $0.075."""
    amount = Decimal(f"{usd_per_mtok:.6f}")  # without the last bits of a float
    return f"{'−' if amount < 0 else ''}{_six_decimals(abs(amount))}"


def percent(value: float, *, padded: bool = False) -> str:
    """Format as 24.4% or 24%; what would wrongly round to 0% or 100% becomes < 0.1% or > 99.9%.

    In columns, where numbers stand below each other, it is padded: 24.0%.
    """
    if 0 < value < 0.05:
        return "< 0.1%"
    if 99.95 <= value < 100:
        return "> 99.9%"
    text = f"{value:,.1f}"
    return f"{text if padded else text.removesuffix('.0')}%"


# What is less is no change worth a percentage.
LEAST_CHANGE_USD: Final = Decimal(1)
_MOST_PERCENT: Final = 999
_MOST_TIMES: Final = 1_000


def relative(now: Decimal, before: Decimal, *, padded: bool = False) -> str:
    """Format how an amount differs from another: +12.3%, −8%, No change; New where it was none."""
    if not before:
        return "New" if now else "–"
    share = float((now - before) / before * 100)
    if abs(share) < 0.05:
        return "No change"
    size = f"{abs(share):,.0f}%" if abs(share) >= 100 else percent(abs(share), padded=padded)
    return f"{'+' if share > 0 else '−'}{size}"


def is_change(now: Decimal, before: Decimal, days: int = 1) -> bool:
    """Check whether a change is large enough for a percentage; of amounts per day, over so many."""
    return abs(now - before) * days >= LEAST_CHANGE_USD


def change(now: Decimal, before: Decimal, days: int = 1, *, padded: bool = False) -> str:
    """Format how spend has changed: +12.3%, ×12 beyond 999%, New, or "–" under a dollar.

    Whether the period before is covered at all is for the caller to check.
    """
    if now == before and now:
        return "No change"
    if not is_change(now, before, days):
        return "–"
    if before < _CENT or now >= before * _MOST_TIMES:
        return "New"
    if (now - before) / before * 100 > _MOST_PERCENT:
        return f"×{now / before:,.0f}"
    return relative(now, before, padded=padded)


def changed_from(now: Decimal, before: Decimal, when: str) -> str:
    """Format a change as a phrase: +12.3% from $614.03 in Oct 2026."""
    words = change(now, before)
    if words == "New":
        return f"New: {usd(before) if before else 'nothing'} {when}"
    if words == "–":
        return f"{usd(before)} {when}, less than $1 apart"
    return f"{words}{',' if words == 'No change' else ''} from {usd(before)} {when}"


def number(value: int) -> str:
    return f"{value:,}"


def short_number(value: float, *, padded: bool = False) -> str:
    """Format as 1.2M, padded as 1.20M for columns; numbers under a thousand stay whole."""
    for size, letter in _THOUSANDS:
        # 999.9K would round up to 1,000K, so it becomes 1M.
        if value >= size * 0.9995:
            if value >= size * 999.5:
                return f"{value:.3g}"
            text = (
                f"{float(value) / size:#.3g}".removesuffix(".") if padded else f"{value / size:.3g}"
            )
            return f"{text}{letter}"
    return f"{value:,.0f}"


def size(count: int) -> str:
    """Format bytes as 1.2 MB; a number under a thousand as 999 bytes."""
    for unit, name in _BYTES:
        if count >= unit * 0.9995:
            return f"{count / unit:.3g} {name}" if count < unit * 999.5 else f"{count:.3g} bytes"
    return counted(count, "byte")


def counted(value: int, noun: str, plural: str = "") -> str:
    """Format a count with its noun: 1 call, 2 calls."""
    return f"{value:,} {noun if value == 1 else plural or f'{noun}s'}"


def length(days: float) -> str:
    """Format a time span in its largest unit: 45 minutes, 2.5 hours, 12 days."""
    for size, noun in ((1, "day"), (24, "hour"), (1440, "minute")):
        if days * size >= 0.995:
            text = f"{days * size:.1f}".removesuffix(".0")
            return f"{text} {noun if text == '1' else f'{noun}s'}"
    return "under a minute"


def latency(milliseconds: float) -> str:
    """Format a latency with two digits: 820 ms, 3.4 s, 75 s, 12 min."""
    for limit, size, unit in ((995, 1, "ms"), (119_500, 1_000, "s")):
        if milliseconds < limit:
            rounded = float(f"{milliseconds / size:.2g}")
            digits = ".1f" if unit == "s" and rounded < 10 else "g"
            return f"{rounded:{digits}} {unit}"
    return f"{milliseconds / 60_000:,.0f} min"


def day(value: str | date) -> str:
    """Format a day or the day of a time: Nov 22, 2026."""
    when = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{_MONTHS[when.month - 1]} {when.day}, {when.year}"


def short_day(value: date) -> str:
    """Format a day without its year, for axes: Nov 22."""
    return f"{_MONTHS[value.month - 1]} {value.day}"


def month(first: date) -> str:
    """Format the month of a day: Nov 2026."""
    return f"{_MONTHS[first.month - 1]} {first.year}"


def months(first: str, last: str) -> str:
    """Format the months of two times: in June 2026, between June 2026 and July 2026."""
    begin, end = (
        f"{_MONTH_NAMES[when.month - 1]} {when.year}"
        for when in map(datetime.fromisoformat, (first, last))
    )
    return f"in {begin}" if begin == end else f"between {begin} and {end}"


def period(first: str | date, last: str | date) -> str:
    """Format two days as a range, and a single day alone: Nov 1, 2026 to Nov 22, 2026."""
    begin, end = day(first), day(last)
    return begin if begin == end else f"{begin} to {end}"
