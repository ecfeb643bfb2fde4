"""Take the difference between one month's bill and our calls apart, until it closes.

Three figures are compared and never added: what the provider billed, what it reported as used (at
our list prices), and what our calls counted (at list prices, too). For each month and provider

    billed = counted + not sent + fees + credits + taxes + … - discount + unexplained

holds exactly, because what no other part explains is the last one. Everything but `reconcile` is
pure.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from typing import Any, Final

from sqlalchemy import Connection

from detectors.contract import DailySpend
from service.connections import list_providers
from service.connections.provider import CREDIT, MAX_LABEL, TAX, TOKENS, UsageLine
from service.models.connections.bill import (
    TOKENS as TOKEN_COUNTS,
)
from service.models.connections.bill import (
    Days,
    find_lock,
    list_unlocked,
    lock_month,
    sum_costs,
    sum_counted,
    sum_usage,
)
from service.models.connections.reported import list_names
from service.models.connections.unsent import NOT_SENT as NOT_SENT_ROUTE
from service.models.connections.unsent import SOURCE
from service.operations.connections.plan import LOCKED_AFTER, month_end, month_start
from service.operations.connections.pricing import MEASURES, Price, price_with
from service.operations.price_terms import find_account_terms

NO_USD: Final = Decimal(0)
USD: Final = "USD"
# The parts of the difference, in the order in which they are shown.
NOT_SENT, BEYOND, VALUATION = "not_sent", "counted_beyond_reported", "call_prices"
UNBILLED, PENDING, DISCOUNT = "tiers_without_cost", "not_billed_yet", "discount"
UNPRICED, CORRECTION, ROUNDING = "models_without_price", "later_corrections", "rounding"
CREDITS, TAXES, UNEXPLAINED = "credits", "taxes", "unexplained"
_ONE_CENT: Final = Decimal("0.01")
# A smaller difference from list price is noise and no discount.
_LEAST_DISCOUNT: Final = Decimal("0.005")
_RATIO_DIGITS: Final = Decimal("0.0001")
# Calls within an hour of midnight may belong to either day.
_AT_MIDNIGHT: Final = Decimal(1) / 12
_DATED: Final = re.compile(r"[-@](?:20\d{2}-\d{2}-\d{2}|20\d{6})$|-latest$")
_ROUNDS: Final = 500
_SETTLED: Final = 1e-7
_SILENT: Final = 0.02


@dataclass(frozen=True)
class Part:
    """A part of the difference. A part that belongs to a project has its name."""

    kind: str
    usd: Decimal
    project_id: str = ""
    project: str = ""


@dataclass
class Line:
    """One day, model or project of the month."""

    key: str
    name: str = ""
    billed_usd: Decimal = NO_USD
    reported_usd: Decimal = NO_USD
    counted_usd: Decimal = NO_USD
    reported_tokens: int = 0
    counted_tokens: int = 0

    @property
    def coverage(self) -> Decimal | None:
        return _share(min(self.counted_tokens, self.reported_tokens), self.reported_tokens)


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
    billable_days: Sequence[Line] = ()  # of tokens alone, as corrections are measured
    locked_at: datetime | None = None
    locked_usd: Decimal | None = None

    def part(self, kind: str) -> Decimal:
        return sum((each.usd for each in self.parts if each.kind == kind), NO_USD)

    @property
    def unexplained_usd(self) -> Decimal:
        return self.part(UNEXPLAINED)

    @property
    def explained_share(self) -> Decimal | None:
        return _share(self.explained_usd, self.billed_usd)

    @property
    def proposed_discount(self) -> Decimal | None:
        """Return the share off list prices that the bill shows, if it shows one."""
        return 1 - self.rate if self.rate < 1 and self.billed_usd > 0 else None


Counts = tuple[int, ...]


@dataclass
class _Cell:
    """A day and model: what was reported of it, counted and billed."""

    reported: Counts = (0, 0, 0, 0)
    counted: Counts = (0, 0, 0, 0)
    list_usd: Decimal = NO_USD
    unbilled_usd: Decimal = NO_USD  # of tiers that the cost report leaves out
    counted_usd: Decimal = NO_USD
    billed_usd: Decimal = NO_USD
    cost_rows: int = 0
    unpriced: int = 0
    cost_usd: Decimal = NO_USD  # at the account's own prices
    requests: int = 0
    calls: int = 0
    names: "Counter[str]" = field(default_factory=Counter)  # of the model, as it was reported
    projects: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    unbilled: dict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    tokens: dict[str, int] = field(default_factory=lambda: defaultdict(int))  # by project

    @property
    def weights(self) -> Mapping[str, Decimal]:
        """Return by what its tokens are divided among its projects: dollars, if it has a price."""
        if self.list_usd:
            return self.projects
        return {project: Decimal(count) for project, count in self.tokens.items()}

    @property
    def billable_usd(self) -> Decimal:
        return self.list_usd - self.unbilled_usd


Cells = Mapping[tuple[date, str], _Cell]


class Known:
    """The list prices and the names that all months of an account share."""

    def __init__(self, connection: Connection, account_id: str) -> None:
        _chosen, self.book = find_account_terms(connection, account_id)
        self.names = list_names(connection, account_id)
        self.price_with: Callable[[str], Price] = cache(partial(price_with, self.book))


def reconcile(
    connection: Connection,
    account_id: str,
    provider: str,
    month: date,
    known: Known | None = None,
) -> Reconciliation:
    days = (month, (month_end(month) - timedelta(days=1)).date())
    return compare(read_inputs(connection, account_id, provider, days, known))


def read_inputs(
    connection: Connection,
    account_id: str,
    provider: str,
    days: Days,
    known: Known | None = None,
) -> "Inputs":
    known = known or Known(connection, account_id)
    canonical = partial(find_canonical, known.book, provider, day=days[1])
    return Inputs(
        provider=provider,
        month=days[0],
        costs=sum_costs(connection, account_id, provider, days),
        usage=sum_usage(connection, account_id, provider, days),
        counted=sum_counted(connection, account_id, provider, days),
        lock=find_lock(connection, account_id, provider, days[0]),
        names=known.names,
        price=known.price_with(provider),
        canonical=cache(canonical),
    )


def find_unsent(
    connection: Connection, account_id: str, provider: str, days: Days
) -> list[DailySpend]:
    """Return what the provider reports of these days and no call covers, by day, model and project.

    Each token is in a call or here: a line's counts are the reported ones less the calls'.
    """
    given = read_inputs(connection, account_id, provider, days)
    cells = _make_cells(given)
    used, _surplus = _cover(cells)
    shares = _find_shares(cells, used, given)
    sent = _fit_shares(cells, shares)
    found = []
    for (day, model), cell in cells.items():
        left = [a - b for a, b in zip(cell.reported, used[day, model], strict=True)]
        # Cached tokens are part of a prompt, also where calls have other kinds than the report.
        left[1] = min(left[1], left[0])
        left[2] = min(left[2], left[0] - left[1])
        if not any(left) and not cell.list_usd * (1 - shares[day, model]):
            continue
        whole = cell.weights
        weights = {name: weight * (1 - sent[name]) for name, weight in whole.items()}
        if not sum(weights.values()):
            weights = dict(whole) or {"": NO_USD}
        counts = [*left, max(0, cell.requests - cell.calls)]
        dollars = [usd * (1 - shares[day, model]) for usd in (cell.cost_usd, cell.list_usd)]
        for project, (numbers, amounts) in _spread(weights, counts, dollars).items():
            name = given.names.get(("project", project), "") or project
            unpriced = numbers[4] if cell.unpriced and not cell.list_usd else 0
            found.append(
                DailySpend(
                    day=day,
                    route=f"{NOT_SENT_ROUTE}: {name}"[:MAX_LABEL] if name else NOT_SENT_ROUTE,
                    provider=provider,
                    model=cell.names.most_common(1)[0][0] if cell.names else model,
                    environment=SOURCE,
                    calls=numbers[4],
                    unpriced_calls=unpriced,
                    prompt_tokens=numbers[0],
                    cached_tokens=numbers[1],
                    cache_write_tokens=numbers[2],
                    completion_tokens=numbers[3],
                    cost_usd=amounts[0],
                    list_usd=amounts[1],
                )
            )
    return found


def find_coverage(given: "Inputs") -> Mapping[tuple[date, str], Decimal]:
    """Return the share of the reported dollars of each day and model that calls cover.

    The models are named as they were reported.
    """
    cells = _make_cells(given)
    shares = _find_shares(cells, _cover(cells)[0], given)
    return {
        (day, name): shares[day, model]
        for (day, model), cell in cells.items()
        for name in cell.names
    }


def _spread(
    weights: Mapping[str, Decimal], counts: Sequence[int], dollars: Sequence[Decimal]
) -> Mapping[str, tuple[list[int], list[Decimal]]]:
    """Divide counts and dollars by weight, so that the parts add up to the whole exactly."""
    whole, left = sum(weights.values(), NO_USD), (list(counts), list(dollars))
    found = {}
    names = sorted(weights, key=lambda name: weights[name])
    for name in names[:-1]:
        share = weights[name] / whole if whole else NO_USD
        part = ([int(count * share) for count in counts], [_usd9(usd * share) for usd in dollars])
        if any(part[0]) or any(part[1]):
            found[name] = part
            left = (
                [a - b for a, b in zip(left[0], part[0], strict=True)],
                [a - b for a, b in zip(left[1], part[1], strict=True)],
            )
    return {**found, names[-1]: (left[0], [_usd9(usd) for usd in left[1]])}


def _usd9(usd: Decimal) -> Decimal:
    """Return dollars as the table of spend has them."""
    return usd.quantize(Decimal("1E-9"))


def lock_months(connection: Connection, account_id: str, provider: str, now: datetime) -> None:
    """Lock each month, 10 days after its end."""
    last = (now - LOCKED_AFTER).date().replace(day=1)
    months = list_unlocked(connection, account_id, provider, before=last)
    known = Known(connection, account_id) if months else None
    for month in months:
        found = reconcile(connection, account_id, provider, month, known)
        days = {
            line.key: [str(line.billed_usd), str(line.reported_usd)] for line in found.billable_days
        }
        lock_month(
            connection,
            {
                "account_id": account_id,
                "provider": provider,
                "month": month,
                "locked_at": now,
                "billed_usd": found.billed_usd,
                "days": days,
            },
        )


def find_canonical(book: Any, provider: str, model: str, day: date) -> str:
    """Return the name under which reports and calls are compared: the book's, without a date.

    The date stays where it has another price on this day.
    """
    listing = book.find_listing(provider, model)
    name = listing.info.id if listing is not None else model.lower()
    short = _DATED.sub("", name)
    if short == name:
        return name
    undated, at = book.find_listing(provider, short), month_start(day)
    own, other = (each and each.find_rates(at, 0, measured=MEASURES) for each in (listing, undated))
    return short if own == other else name


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What the month is reconciled from."""

    provider: str
    month: date
    costs: Sequence[Any]
    usage: Sequence[Any]
    counted: Sequence[Any]
    lock: Any
    names: Mapping[tuple[str, str], str]
    price: Price
    canonical: Callable[[str], str]


def compare(given: Inputs) -> Reconciliation:
    """Return the reconciliation of the month."""
    cells = _make_cells(given)
    dollars = [row for row in given.costs if row.currency == USD]
    last_billed = max((row.day for row in dollars if row.amount), default=None)
    found = Reconciliation(given.provider, given.month)
    found.billed_usd = sum((row.amount for row in dollars), NO_USD)
    found.reported_usd = sum((cell.list_usd for cell in cells.values()), NO_USD)
    found.counted_usd = sum((cell.counted_usd for cell in cells.values()), NO_USD)
    others: dict[str, Decimal] = defaultdict(Decimal)
    for row in given.costs:
        if row.currency != USD:
            others[row.currency] += row.amount
    found.other_currencies = dict(others)

    used, surplus = _cover(cells)
    shares = _find_shares(cells, used, given)
    matched = {key: cell.list_usd * shares[key] for key, cell in cells.items()}
    beyond = {key: _beyond(key, cell, surplus[key], given) for key, cell in cells.items()}
    is_billed = {key: last_billed is not None and key[0] <= last_billed for key in cells}
    found.rate = _find_listed_rate(dollars) or _find_rate(cells, is_billed)
    billable = {key: cell.billable_usd if is_billed[key] else NO_USD for key, cell in cells.items()}

    parts: dict[str, Decimal] = defaultdict(Decimal)
    parts[NOT_SENT] = found.reported_usd - sum(matched.values(), NO_USD)
    parts[BEYOND] = -sum(beyond.values(), NO_USD)
    parts[VALUATION] = (
        sum(matched.values(), NO_USD) - found.counted_usd + sum(beyond.values(), NO_USD)
    )
    parts[UNBILLED] = -sum((cell.unbilled_usd for cell in cells.values()), NO_USD)
    parts[PENDING] = -sum(
        (cell.billable_usd for key, cell in cells.items() if not is_billed[key]), NO_USD
    )
    parts[DISCOUNT] = -(1 - found.rate) * sum(billable.values(), NO_USD)
    for row in dollars:
        if row.kind == CREDIT:
            parts[CREDITS] += row.amount
        elif row.kind == TAX:
            parts[TAXES] += row.amount
        elif row.kind != TOKENS:
            parts[row.kind] += row.amount
    for key, cell in cells.items():
        left = cell.billed_usd - found.rate * billable[key]
        if cell.unpriced and not cell.list_usd:
            parts[UNPRICED] += left
        elif abs(left) <= _ONE_CENT / 2 * max(cell.cost_rows, 1):
            parts[ROUNDING] += left
        else:
            parts[UNEXPLAINED] += left
    _add_corrections(found, parts, cells, billable, given.lock)

    found.sent_shares = sent = _fit_shares(cells, shares)
    found.projects = _name_unsent(cells, shares, is_billed, sent, found.rate, given.names)
    unsent = sum((part.usd for part in found.projects), NO_USD)
    found.explained_usd = found.rate * sum(billable.values(), NO_USD) - unsent
    found.parts = [Part(kind, usd) for kind, usd in parts.items() if usd]
    _add_lines(found, cells, dollars, billable, given)
    return found


def _make_cells(given: Inputs) -> dict[tuple[date, str], _Cell]:
    cells: dict[tuple[date, str], _Cell] = defaultdict(_Cell)
    known = list_providers().get(given.provider)
    unbilled = known.unbilled_tiers if known else ()
    for row in given.usage:
        cell = cells[row.day, given.canonical(row.model) if row.model else ""]
        listed = row.list_usd or NO_USD
        cell.reported = _plus(cell.reported, _counts(row))
        cell.list_usd += listed
        cell.cost_usd += row.cost_usd or NO_USD
        cell.requests += int(row.requests)
        cell.names[row.model] += int(row.prompt_tokens) + 1
        cell.unpriced += row.unpriced
        if row.tier in unbilled:
            cell.unbilled_usd += listed
            cell.unbilled[row.project_id] += listed
        cell.projects[row.project_id] += listed
        cell.tokens[row.project_id] += int(row.prompt_tokens) + int(row.completion_tokens)
    for row in given.counted:
        cell = cells[row.day, given.canonical(row.model)]
        cell.counted = _plus(cell.counted, _counts(row))
        cell.counted_usd += row.list_usd
        cell.calls += int(row.calls)
    for row in given.costs:
        if row.kind == TOKENS and row.currency == USD:
            cell = cells[row.day, given.canonical(row.model) if row.model else ""]
            cell.billed_usd += row.amount
            cell.cost_rows += row.rows
    if not given.usage:  # there are only costs, so the calls themselves are what is known of usage
        for cell in cells.values():
            cell.reported, cell.list_usd = cell.counted, cell.counted_usd
            cell.projects[""] += cell.counted_usd
    return dict(cells)


Shares = Mapping[tuple[date, str], Decimal]
ByCell = Mapping[tuple[date, str], Counts]


def _cover(cells: Cells) -> tuple[ByCell, ByCell]:
    """Return the reported tokens that our calls cover, and those that they have beyond them.

    Tokens are compared by kind. What a day has too much covers up to a twelfth of its tokens on
    the days beside it, because of calls around midnight.
    """
    left = {key: list(cell.counted) for key, cell in cells.items()}
    used = {key: [0] * len(TOKEN_COUNTS) for key in cells}
    for key, cell in cells.items():
        for unit, reported in enumerate(cell.reported):
            used[key][unit] = min(left[key][unit], reported)
            left[key][unit] -= used[key][unit]
    for (day, model), cell in cells.items():
        for other in ((day - timedelta(days=1), model), (day + timedelta(days=1), model)):
            if other not in cells:
                continue
            for unit, reported in enumerate(cell.reported):
                most = int(cells[other].counted[unit] * _AT_MIDNIGHT)
                moved = min(reported - used[day, model][unit], left[other][unit], most)
                used[day, model][unit] += moved
                left[other][unit] -= moved
    return _fixed(used), _fixed(left)


def _fixed(counts: Mapping[tuple[date, str], list[int]]) -> ByCell:
    return {key: tuple(each) for key, each in counts.items()}


def _find_shares(cells: Cells, used: ByCell, given: Inputs) -> Shares:
    """Return the share of each cell's reported dollars that our calls cover."""
    shares = {}
    for (day, model), cell in cells.items():
        whole = _value(given, day, model, cell.reported)
        part = _value(given, day, model, used[day, model])
        if not whole:
            whole, part = Decimal(sum(cell.reported)), Decimal(sum(used[day, model]))
        if not whole:  # of speech, say, which is billed by characters or seconds
            whole, part = cell.list_usd, cell.counted_usd
        # Tokens of a kind that costs more may be covered where others aren't.
        shares[day, model] = min(Decimal(1), part / whole) if whole else NO_USD
    return shares


def _beyond(key: tuple[date, str], cell: _Cell, surplus: Counts, given: Inputs) -> Decimal:
    """Return the dollars of what our calls counted beyond the report."""
    counted = _value(given, *key, cell.counted)
    return cell.counted_usd * _value(given, *key, surplus) / counted if counted else NO_USD


def _value(given: Inputs, day: date, model: str, counts: Counts) -> Decimal:
    prompt, cached, written, completion = counts
    line = UsageLine(
        bucket=month_start(day),
        model=model,
        prompt_tokens=max(prompt, cached + written),
        completion_tokens=completion,
        cached_tokens=cached,
        cache_write_tokens=written,
    )
    return given.price(line) or NO_USD


def _find_listed_rate(dollars: Sequence[Any]) -> Decimal | None:
    """Return billed ÷ list of tokens, if the provider says its list price of all of them."""
    tokens = [row for row in dollars if row.kind == TOKENS]
    if not tokens or any(row.list_amount is None for row in tokens):
        return None
    listed = sum((row.list_amount for row in tokens), NO_USD)
    return _round_rate(sum((row.amount for row in tokens), NO_USD) / listed) if listed else None


def _round_rate(ratio: Decimal) -> Decimal:
    rounded = ratio.quantize(_RATIO_DIGITS)
    return Decimal(1) if abs(1 - rounded) < _LEAST_DISCOUNT else rounded


def _find_rate(cells: Cells, is_billed: Mapping[tuple[date, str], bool]) -> Decimal:
    """Return billed ÷ list of most dollars: the median of the days and models."""
    ratios = sorted(
        (cell.billed_usd / cell.billable_usd, cell.billable_usd)
        for key, cell in cells.items()
        if is_billed[key] and cell.billed_usd > 0 and cell.billable_usd > _ONE_CENT
    )
    half, reached = sum((usd for _ratio, usd in ratios), NO_USD) / 2, NO_USD
    for ratio, usd in ratios:
        reached += usd
        if reached >= half:
            return _round_rate(ratio)
    return Decimal(1)


def _add_corrections(
    found: Reconciliation,
    parts: dict[str, Decimal],
    cells: Cells,
    billable: Shares,
    lock: Any,
) -> None:
    """Move what has changed since the month was locked from unexplained to its own part."""
    if lock is None:
        return
    found.locked_at, found.locked_usd = lock.locked_at, lock.billed_usd
    now: dict[str, list[Decimal]] = defaultdict(lambda: [NO_USD, NO_USD])
    for key, cell in cells.items():
        now[str(key[0])][0] += cell.billed_usd
        now[str(key[0])][1] += billable[key]
    for day in {*now, *lock.days}:
        billed, listed = map(Decimal, lock.days.get(day, ("0", "0")))
        moved = now[day][0] - billed - found.rate * (now[day][1] - listed)
        if moved:
            parts[CORRECTION] += moved
            parts[UNEXPLAINED] -= moved


def _name_unsent(
    cells: Cells,
    shares: Shares,
    is_billed: Mapping[tuple[date, str], bool],
    sent: Mapping[str, Decimal],
    rate: Decimal,
    names: Mapping[tuple[str, str], str],
) -> Sequence[Part]:
    """Attribute what wasn't sent to projects, most dollars first.

    Calls don't name their project. The share that each project sends is what explains the coverage
    of all days and models best: least squares, with shares from 0 to 1.
    """
    unsent: dict[str, Decimal] = defaultdict(Decimal)
    whole = total = NO_USD
    for key, cell in cells.items():
        total += cell.list_usd * (1 - shares[key])
        for project, usd in cell.projects.items():
            whole += usd * (1 - sent[project])
            if is_billed[key]:
                unsent[project] += (usd - cell.unbilled[project]) * (1 - sent[project])
    if not whole and total:  # which no single project explains
        for key, cell in cells.items():
            whole += cell.list_usd
            for project, usd in cell.projects.items():
                if is_billed[key]:
                    unsent[project] += usd - cell.unbilled[project]
    found = [
        Part(NOT_SENT, rate * usd * total / whole, project, names.get(("project", project), ""))
        for project, usd in unsent.items()
        if whole and usd * total / whole >= _ONE_CENT
    ]
    return sorted(found, key=lambda part: -part.usd)


def _fit_shares(cells: Cells, shares: Shares) -> Mapping[str, Decimal]:
    projects = sorted({project for cell in cells.values() for project in cell.projects})
    gram: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    right: dict[str, float] = defaultdict(float)
    for key, cell in cells.items():
        found = [(project, float(usd)) for project, usd in cell.projects.items() if usd]
        covered = float(cell.list_usd * shares[key])
        for project, usd in found:
            right[project] += usd * covered
            for other, more in found:
                gram[project][other] += usd * more
    sent = dict.fromkeys(projects, 0.5)
    for _round in range(_ROUNDS):
        moved = 0.0
        for project in projects:
            beside, before = gram[project], sent[project]
            own = beside.get(project)
            if own:
                rest = sum(usd * sent[other] for other, usd in beside.items()) - own * before
                sent[project] = min(1.0, max(0.0, (right[project] - rest) / own))
                moved = max(moved, abs(sent[project] - before))
        if moved < _SETTLED:
            break
    return {project: _round_share(share) for project, share in sent.items()}


def _round_share(share: float) -> Decimal:
    """Return 0 or 1 for what is nearly that: a fit is no measurement."""
    if share < _SILENT or share > 1 - _SILENT:
        return Decimal(round(share))
    return Decimal(str(round(share, 6)))


def _add_lines(
    found: Reconciliation,
    cells: Cells,
    dollars: Sequence[Any],
    billable: Shares,
    given: Inputs,
) -> None:
    days: dict[str, Line] = {}
    models: dict[str, Line] = {}
    projects: dict[str, Line] = {}
    locked: dict[str, Line] = {}
    reported_tokens = counted_tokens = 0
    for (day, model), cell in sorted(cells.items()):
        for lines, key in ((days, str(day)), (models, model)):
            line = lines.setdefault(key, Line(key))
            line.reported_usd += cell.list_usd
            line.counted_usd += cell.counted_usd
            line.reported_tokens += cell.reported[0] + cell.reported[3]
            line.counted_tokens += cell.counted[0] + cell.counted[3]
        for project, usd in cell.projects.items():
            projects.setdefault(project, Line(project)).reported_usd += usd
        kept = locked.setdefault(str(day), Line(str(day)))
        kept.billed_usd += cell.billed_usd
        kept.reported_usd += billable[day, model]
        reported_tokens += cell.reported[0] + cell.reported[3]
        counted_tokens += cell.counted[0] + cell.counted[3]
    for row in dollars:
        days.setdefault(str(row.day), Line(str(row.day))).billed_usd += row.amount
        projects.setdefault(row.project_id, Line(row.project_id)).billed_usd += row.amount
        model = given.canonical(row.model) if row.kind == TOKENS and row.model else row.kind
        models.setdefault(model, Line(model)).billed_usd += row.amount
    for line in projects.values():
        line.counted_usd = line.reported_usd * found.sent_shares.get(line.key, NO_USD)
        line.name = given.names.get(("project", line.key), "")
    found.coverage = _share(min(counted_tokens, reported_tokens), reported_tokens)
    found.days = [days[key] for key in sorted(days)]
    found.models = sorted(models.values(), key=lambda line: -line.billed_usd)
    found.by_project = sorted(projects.values(), key=lambda line: -line.billed_usd)
    found.billable_days = list(locked.values())


def _counts(row: Any) -> Counts:
    return tuple(int(getattr(row, name) or 0) for name in TOKEN_COUNTS)


def _plus(first: Counts, second: Counts) -> Counts:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _share(part: Any, whole: Any) -> Decimal | None:
    return Decimal(part) / Decimal(whole) if whole else None
