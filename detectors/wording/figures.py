"""How numbers are written for people: dollars, shares, counts."""

from decimal import Decimal
from typing import Final

_CENT: Final = Decimal("0.01")
_SMALLEST_USD: Final = Decimal("0.0001")
_THOUSANDS: Final = ((10**15, "Q"), (10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))


def usd(amount: Decimal) -> str:
    """$1,234.56; an amount too small for cents keeps its leading digits."""
    if amount < 0:
        return f"−{usd(-amount)}"
    if 0 < amount < _CENT:
        return f"${float(amount):.2g}" if amount >= _SMALLEST_USD else "< $0.0001"
    return f"${amount:,.2f}"


def whole_usd(amount: Decimal) -> str:
    """$1,235, for a headline; amounts under $10 keep their cents."""
    return usd(amount) if abs(amount) < 10 or amount < 0 else f"${amount:,.0f}"


def fine_usd(amount: Decimal) -> str:
    """$1,234.56, and $0.002475: up to six decimals under a dollar, where sums must add up."""
    if amount < 0:
        return f"−{fine_usd(-amount)}"
    if amount >= 1:
        return usd(amount)
    whole, _, decimals = f"{amount:.6f}".partition(".")
    return f"${whole}.{decimals.rstrip('0').ljust(2, '0')}"


def short_usd(amount: float) -> str:
    """$1.2M, where there is little room."""
    if amount >= 1_000:
        return f"${short_number(amount)}"
    if amount >= 10 or amount == 0:
        return f"${amount:.0f}"
    return f"${amount:.2f}" if amount >= 0.1 else f"${Decimal(f'{amount:.2g}'):f}"


def rate(usd_per_mtok: float) -> str:
    """$2.50 or $0.075: what a million tokens cost, to the last decimal that a price list has."""
    whole, _, decimals = f"{usd_per_mtok:,.4f}".partition(".")
    return f"${whole}.{decimals.rstrip('0').ljust(2, '0')}"


def percent(value: float) -> str:
    """24.4% or 24%; a share that rounds to 0% or 100% without being it says so: < 0.1%."""
    if 0 < value < 0.05:
        return "< 0.1%"
    if 99.95 <= value < 100:
        return "> 99.9%"
    return f"{f'{value:.1f}'.removesuffix('.0')}%"


def number(value: int) -> str:
    return f"{value:,}"


def short_number(value: float) -> str:
    """1.2M; a number under a thousand as it is."""
    for size, letter in _THOUSANDS:
        # What would be rounded up to 1,000 of a size is 1 of the next.
        if value >= size * 0.9995:
            return f"{value / size:.3g}{letter}" if value < size * 999.5 else f"{value:.3g}"
    return f"{value:,.0f}"


def counted(value: int, noun: str, plural: str = "") -> str:
    """1 call, 2 calls."""
    return f"{value:,} {noun if value == 1 else plural or f'{noun}s'}"
