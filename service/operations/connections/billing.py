"""Divide what providers billed among lines of spend, so that the rows add up to the bill.

What was billed for a day's model is divided among its lines by list price, or by tokens where
there is none. What no line carries, such as fees, credits and taxes, are charges of their own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from sqlalchemy.orm import Session

from detectors.wording.labels import inert
from service.connections.provider import CREDIT, TAX, TOKENS
from service.models.calls.spend import Period, Selection, Sums, iter_spend
from service.models.connections.bill import CALLED, find_lock, list_months, sum_costs
from service.operations.connections.coverage import USD, Known
from service.operations.connections.plan import month_end
from service.operations.connections.wording import name_part
from service.reports.focus import NO_BILL, PROVISIONAL, RECONCILED, Bill, Charge

_NO_USD: Final = Decimal(0)
_NINE: Final = Decimal("1E-9")
_CATEGORIES: Final = {CREDIT: "Credit", TAX: "Tax"}
_Cell = tuple[date, str, str]  # a day, a provider, and a model's name as reports and calls share it


class Billed:
    """What was billed in a period: `share` gives each line its part, `rest` is what none has."""

    def __init__(self, session: Session, account_id: str, period: Period) -> None:
        self._period = period
        self._status: dict[tuple[str, date], str] = {}
        self._left: dict[_Cell, Decimal] = defaultdict(Decimal)
        self._weights: dict[_Cell, tuple[Decimal, int]] = {}
        self._names: dict[str, Callable[[str], str]] = {}
        self._charges: list[Charge] = []  # fees, credits and taxes
        self._unmatched: list[Charge] = []  # tokens that no line is divided by
        self._spent: set[tuple[date, str]] = set()  # days of providers that have lines
        first, last = self._period.first.replace(day=1), month_end(self._period.last).date()
        months = [each for each in list_months(session, account_id) if first <= each[0] < last]
        if not months:
            return
        known = Known(session.connection(), account_id)
        for provider in sorted({each[1] for each in months}):
            self._names[provider] = known.canonical(provider, self._period.last)
            days = (first, last - timedelta(days=1))
            for row in sum_costs(session, account_id, provider, days):
                self._add(session, account_id, provider, row)
        # Add up by what each day's model is divided, whichever lines are wanted.
        period = self._period
        wanted = Selection(period.first, period.last, keys=("day", "provider", "model"))
        for line in iter_spend(session, account_id, wanted):
            key: Sequence[Any] = line.key
            day, provider, model = key
            self._spent.add((day, _billed_by(provider)))
            cell = self._cell(day, provider, model)
            if cell is not None:
                usd, tokens = self._weights.get(cell, (_NO_USD, 0))
                self._weights[cell] = (usd + line.sums.list_usd, tokens + _tokens(line.sums))
        for cell in [cell for cell, (usd, tokens) in self._weights.items() if not usd + tokens]:
            del self._weights[cell]
        self._unmatched += [
            Charge(day, provider, model, "Usage", usd, USD, self._status[provider, _month(day)])
            for (day, provider, model), usd in self._left.items()
            if (day, provider, model) not in self._weights and usd
        ]
        # Lines have the other costs of these tokens, under names that no bill has.
        self._charges += [
            each._replace(is_priced=(each.day, each.provider) not in self._spent)
            for each in self._unmatched
        ]

    def _add(self, session: Session, account_id: str, provider: str, cost: Any) -> None:
        month = _month(cost.day)
        if (provider, month) not in self._status:
            is_locked = find_lock(session, account_id, provider, month) is not None
            self._status[provider, month] = RECONCILED if is_locked else PROVISIONAL
        if not self._period.first <= cost.day <= self._period.last:
            return
        if cost.kind == TOKENS and cost.currency == USD:
            self._left[cost.day, provider, self._names[provider](cost.model)] += cost.amount
        elif cost.amount:
            said = cost.model or name_part(cost.kind)
            category = _CATEGORIES.get(cost.kind, "Usage")
            status = self._status[provider, month]
            found = self._unmatched if cost.kind == TOKENS else self._charges
            found.append(
                Charge(
                    cost.day, provider, inert(said), category, cost.amount, cost.currency, status
                )
            )

    def _cell(self, day: date, provider: str, model: str) -> _Cell | None:
        """Return the cell of a line, if anything was billed for it."""
        name = _billed_by(provider)
        canonical = self._names.get(name)
        cell = canonical and (day, name, canonical(model))
        return cell if cell and cell in self._left else None

    def share(self, day: date, provider: str, model: str, sums: Sums) -> Bill:
        """Return a line's part of the bill. Each line may be asked for once."""
        status = self._status.get((_billed_by(provider), _month(day)), NO_BILL)
        cell = self._cell(day, provider, model)
        if cell is None or cell not in self._weights:
            return Bill(_NO_USD, status)
        usd, tokens = self._weights[cell]
        own_usd, own_tokens = sums.list_usd, _tokens(sums)
        left = self._left[cell]
        part = own_usd / usd if usd else Decimal(own_tokens) / tokens
        # The last line has what is left, so that nothing is lost to rounding.
        billed = left if part == 1 else (left * part).quantize(_NINE)
        self._left[cell] = left - billed
        self._weights[cell] = (usd - own_usd, tokens - own_tokens)
        return Bill(billed, status)

    def rest(self) -> Iterator[Charge]:
        """Yield what was billed and no line of spend has."""
        yield from sorted(self._charges, key=lambda charge: charge[:4])


def _billed_by(provider: str) -> str:
    """Return the provider whose bill has a line's calls."""
    name = provider.lower()
    return next((biller for biller, names in CALLED.items() if name in names), name)


def _month(day: date) -> date:
    return day.replace(day=1)


def _tokens(sums: Sums) -> int:
    return sums.prompt_tokens + sums.completion_tokens
