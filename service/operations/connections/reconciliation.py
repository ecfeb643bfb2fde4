"""Take the difference between one month's bill and our calls apart, until it closes.

Three figures are compared and never added: what the provider billed, what it reported as used (at
our list prices), and what our calls counted (at list prices, too). For each month and provider

    billed = counted + not sent + fees + credits + taxes + … - discount + unexplained

holds exactly, because what no other part explains is the last one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Connection

from service.connections.provider import CREDIT, DAY, TAX, TOKENS
from service.models.connections.bill import find_lock, list_unlocked, lock_month
from service.operations.connections.coverage import NO_USD, USD, Coverage, Key, Known
from service.operations.connections.plan import LOCKED_AFTER, month_end

# The parts of the difference, in the order in which they are shown.
NOT_SENT, BEYOND, VALUATION = "not_sent", "counted_beyond_reported", "call_prices"
UNBILLED, PENDING, DISCOUNT = "tiers_without_cost", "not_billed_yet", "discount"
UNPRICED, CORRECTION, ROUNDING = "models_without_price", "later_corrections", "rounding"
CREDITS, TAXES, UNEXPLAINED = "credits", "taxes", "unexplained"
_ONE_CENT: Final = Decimal("0.01")
# A smaller difference from list price is noise and no discount.
_LEAST_DISCOUNT: Final = Decimal("0.005")
_RATIO_DIGITS: Final = Decimal("0.0001")


@dataclass(frozen=True)
class Part:
    """A part of the difference. A part that belongs to a project has its name."""

    kind: str
    usd: Decimal
    project_id: str = ""
    project: str = ""


@dataclass
class Line:
    """One day, model or project of the month, or all of it."""

    key: str
    name: str = ""
    billed_usd: Decimal = NO_USD
    reported_usd: Decimal = NO_USD
    counted_usd: Decimal = NO_USD
    reported_tokens: int = 0
    covered_tokens: int = 0  # of the reported ones, by our calls

    @property
    def is_used(self) -> bool:
        """Check for more than a cost: fees, credits and taxes have no tokens."""
        return bool(self.reported_usd or self.counted_usd or self.reported_tokens)

    @property
    def coverage(self) -> Decimal | None:
        reported = self.reported_tokens
        return Decimal(self.covered_tokens) / reported if reported else None


class _Lines(dict[str, Line]):
    def __missing__(self, key: str) -> Line:
        return self.setdefault(key, Line(key))

    def by_billed(self) -> Sequence[Line]:
        return sorted(self.values(), key=lambda line: -line.billed_usd)


@dataclass
class Reconciliation:
    """One month of a provider."""

    provider: str
    month: date
    billed_usd: Decimal = NO_USD
    reported_usd: Decimal = NO_USD
    counted_usd: Decimal = NO_USD
    explained_usd: Decimal = NO_USD  # by our calls, at the rates that were billed
    coverage: Decimal | None = None
    rate: Decimal = Decimal(1)  # billed ÷ list
    parts: Sequence[Part] = ()
    projects: Sequence[Part] = ()  # what wasn't sent, at the rates that were billed
    sent_shares: Mapping[str, Decimal] = field(default_factory=dict)  # by project, estimated
    days: Sequence[Line] = ()
    models: Sequence[Line] = ()
    by_project: Sequence[Line] = ()
    other_currencies: Mapping[str, Decimal] = field(default_factory=dict)
    # Of tokens alone, by day: billed and billable, as corrections are measured.
    billable_days: Mapping[str, Sequence[Decimal]] = field(default_factory=dict)
    locked_at: datetime | None = None
    locked_usd: Decimal | None = None

    def part(self, kind: str) -> Decimal:
        return _sum(each.usd for each in self.parts if each.kind == kind)

    @property
    def unexplained_usd(self) -> Decimal:
        return self.part(UNEXPLAINED)

    @property
    def explained_share(self) -> Decimal | None:
        return self.explained_usd / self.billed_usd if self.billed_usd else None

    @property
    def proposed_discount(self) -> Decimal | None:
        """Return the share off list prices that the bill shows, if it shows one."""
        return 1 - self.rate if self.rate < 1 and self.billed_usd > 0 else None


def lock_months(connection: Connection, account_id: str, provider: str, now: datetime) -> None:
    """Lock each month, 10 days after its end, unless costs of its last day weren't pulled."""
    before = (now - LOCKED_AFTER).date().replace(day=1)
    months = list_unlocked(connection, account_id, provider, before)
    if not months:
        return
    known = Known(connection, account_id)
    _lasts, last = known.last_whole(provider)
    for month in months:
        if last < (month_end(month) - DAY).date():
            continue
        found = reconcile(connection, account_id, provider, month, known)
        labels = {"account_id": account_id, "provider": provider, "month": month, "locked_at": now}
        days = {day: [*map(str, usd)] for day, usd in found.billable_days.items()}
        lock_month(connection, {**labels, "billed_usd": found.billed_usd, "days": days})


def reconcile_all(
    connection: Connection, account_id: str, months: Iterable[tuple[date, str]]
) -> list[Reconciliation]:
    """Return the reconciliation of each of these months and providers."""
    known = Known(connection, account_id)
    return [reconcile(connection, account_id, provider, month, known) for month, provider in months]


def reconcile(
    connection: Connection,
    account_id: str,
    provider: str,
    month: date,
    known: Known | None = None,
) -> Reconciliation:
    """Return the reconciliation of the month."""
    days, known = (month, (month_end(month) - DAY).date()), known or Known(connection, account_id)
    covered = Coverage(connection, account_id, provider, days, known)
    cells, shares = covered.cells, covered.shares
    found, dollars = Reconciliation(provider, month), list[Any]()
    others: dict[str, Decimal] = defaultdict(Decimal)
    for row in covered.costs:
        if row.currency == USD:
            dollars.append(row)
        else:
            others[row.currency] += row.amount
    found.other_currencies = dict(others)
    found.billed_usd = _sum(row.amount for row in dollars)
    found.reported_usd = _sum(cell.list_usd for cell in cells.values())
    found.counted_usd = _sum(cell.counted_usd for cell in cells.values())

    tokens = [row for row in dollars if row.kind == TOKENS]
    last_billed = max((row.day for row in tokens if row.amount), default=date.min)
    billable = {
        key: cell.billable_usd if key[0] <= last_billed else NO_USD for key, cell in cells.items()
    }
    listed = _sum(billable.values())
    found.rate = _find_listed_rate(tokens) or _find_rate(covered, billable)
    matched = _sum(cell.list_usd * shares[key] for key, cell in cells.items())
    beyond = _sum(map(covered.beyond, cells))
    unbilled = _sum(cell.unbilled_usd for cell in cells.values())
    parts = defaultdict(
        Decimal,
        {
            NOT_SENT: found.reported_usd - matched,
            BEYOND: -beyond,
            VALUATION: matched - found.counted_usd + beyond,
            UNBILLED: -unbilled,
            PENDING: unbilled + listed - found.reported_usd,
            DISCOUNT: -(1 - found.rate) * listed,
        },
    )
    for row in dollars:
        if row.kind != TOKENS:
            parts[{CREDIT: CREDITS, TAX: TAXES}.get(row.kind, row.kind)] += row.amount
    for key, cell in cells.items():
        parts[PENDING] += cell.billed_so_far_usd
        left = cell.billed_usd - found.rate * billable[key]
        if key[0] > last_billed:  # what was billed of it so far
            parts[PENDING] += left
        elif cell.unpriced and not cell.list_usd:
            parts[UNPRICED] += left
        elif abs(left) <= _ONE_CENT / 2 * max(cell.cost_rows, 1):
            parts[ROUNDING] += left
        else:
            parts[UNEXPLAINED] += left
    _add_lines(found, covered, dollars, billable)
    _add_corrections(found, parts, find_lock(connection, account_id, provider, month))

    found.projects = _name_unsent(found, covered, last_billed)
    found.explained_usd = found.rate * listed - _sum(part.usd for part in found.projects)
    found.parts = [Part(kind, usd) for kind, usd in parts.items() if usd]
    return found


def _find_listed_rate(tokens: Sequence[Any]) -> Decimal | None:
    """Return billed ÷ list of tokens, if the provider says its list price of all of them."""
    if any(row.list_amount is None for row in tokens):
        return None
    listed = _sum(row.list_amount for row in tokens)
    return _round_rate(_sum(row.amount for row in tokens) / listed) if listed else None


def _find_rate(covered: Coverage, billable: Mapping[Key, Decimal]) -> Decimal:
    """Return billed ÷ list of most dollars: the median of the days and models."""
    ratios = sorted(
        (cell.billed_usd / billable[key], billable[key])
        for key, cell in covered.cells.items()
        if cell.billed_usd > 0 and billable[key] > _ONE_CENT
    )
    half, reached = _sum(usd for _ratio, usd in ratios) / 2, NO_USD
    for ratio, usd in ratios:
        reached += usd
        if reached >= half:
            return _round_rate(ratio)
    return Decimal(1)


def _round_rate(ratio: Decimal) -> Decimal:
    rounded = ratio.quantize(_RATIO_DIGITS)
    return Decimal(1) if abs(1 - rounded) < _LEAST_DISCOUNT else rounded


def _add_lines(
    found: Reconciliation,
    covered: Coverage,
    dollars: Sequence[Any],
    billable: Mapping[Key, Decimal],
) -> None:
    days, models, projects, whole = _Lines(), _Lines(), _Lines(), Line("")
    by_day: dict[str, list[Decimal]] = defaultdict(lambda: [NO_USD, NO_USD])
    for (day, model), cell in sorted(covered.cells.items()):
        used = covered.used[day, model]
        for line in (days[str(day)], models[model], whole):
            line.reported_usd += cell.list_usd
            line.counted_usd += cell.counted_usd
            line.reported_tokens += cell.reported[0] + cell.reported[3]
            line.covered_tokens += used[0] + used[3]
        for project, usd in cell.projects.items():
            projects[project].reported_usd += usd
        by_day[str(day)][0] += cell.billed_usd
        by_day[str(day)][1] += billable[day, model]
    for row in dollars:
        model = covered.canonical(row.model) if row.kind == TOKENS and row.model else row.kind
        for line in (days[str(row.day)], projects[row.project_id], models[model]):
            line.billed_usd += row.amount
    for line in projects.values():
        line.counted_usd = line.reported_usd * covered.sent.get(line.key, NO_USD)
        line.name = covered.names.get(("project", line.key), "")
    found.coverage, found.sent_shares, found.billable_days = whole.coverage, covered.sent, by_day
    found.days = [days[key] for key in sorted(days)]
    found.models, found.by_project = models.by_billed(), projects.by_billed()


def _add_corrections(found: Reconciliation, parts: dict[str, Decimal], lock: Any) -> None:
    """Move what has changed since the month was locked from unexplained to its own part."""
    if lock is None:
        return
    found.locked_at, found.locked_usd = lock.locked_at, lock.billed_usd
    for day in {*found.billable_days, *lock.days}:
        billed, listed = found.billable_days.get(day, (NO_USD, NO_USD))
        billed_then, listed_then = map(Decimal, lock.days.get(day, ("0", "0")))
        moved = billed - billed_then - found.rate * (listed - listed_then)
        if moved:
            parts[CORRECTION] += moved
            parts[UNEXPLAINED] -= moved


def _name_unsent(found: Reconciliation, covered: Coverage, last_billed: date) -> Sequence[Part]:
    """Attribute what wasn't sent to projects, most dollars first."""
    reported: dict[str, Decimal] = defaultdict(Decimal)
    billable: dict[str, Decimal] = defaultdict(Decimal)
    for (day, _model), cell in covered.cells.items():
        for project, usd in cell.projects.items():
            reported[project] += usd
            if day <= last_billed:
                billable[project] += usd - cell.unbilled.get(project, NO_USD)
    missing = {project: 1 - share for project, share in covered.sent.items()}
    if not any(usd * missing[project] for project, usd in reported.items()):
        missing = dict.fromkeys(missing, Decimal(1))  # no single project explains it
    whole = _sum(usd * missing[project] for project, usd in reported.items())
    total = _sum(cell.list_usd * (1 - covered.shares[key]) for key, cell in covered.cells.items())
    parts = [
        Part(
            NOT_SENT,
            found.rate * usd * missing[project] * total / whole,
            project,
            covered.names.get(("project", project), ""),
        )
        for project, usd in billable.items()
        if whole and usd * missing[project] * total / whole >= _ONE_CENT
    ]
    return sorted(parts, key=lambda part: -part.usd)


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, NO_USD)
