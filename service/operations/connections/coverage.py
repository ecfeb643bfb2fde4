"""What a provider reports of some days, and what of it our calls cover, by day, model and project.

Counted and reported are compared and never added: each token is in a call or in what wasn't sent.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cache, cached_property, partial
from operator import add, sub
from typing import Any, Final

from sqlalchemy import Connection

from detectors.contract import DailySpend
from service.connections import list_providers
from service.connections.provider import BOTH, COSTS, DAY, MAX_LABEL, TOKENS, UsageLine
from service.models.connections.bill import (
    Days,
    find_last_whole_days,
    sum_costs,
    sum_counted,
    sum_usage,
)
from service.models.connections.reported import list_names
from service.models.connections.unsent import NOT_SENT, SOURCE
from service.operations.connections.plan import month_start
from service.operations.connections.pricing import MEASURES, Price, price_with
from service.operations.price_terms import find_account_terms

NO_USD: Final = Decimal(0)
USD: Final = "USD"
# Calls within an hour of midnight may belong to either day.
_AT_MIDNIGHT: Final = 12
_DATED: Final = re.compile(r"[-@](?:20\d{2}-\d{2}-\d{2}|20\d{6})$|-latest$")
_ROUNDS: Final = 500
_SETTLED: Final = 1e-7
_SILENT: Final = 0.02
_NINE: Final = Decimal("1E-9")  # as the table of spend has dollars

Key = tuple[date, str]  # a day and a model's name as reports and calls share it
Counts = tuple[int, ...]  # prompt, cached, written and completion tokens
_NONE: Final[Counts] = (0, 0, 0, 0)


class Known:
    """The list prices and the names that all months of an account share."""

    def __init__(self, connection: Connection, account_id: str) -> None:
        _chosen, self.book = find_account_terms(connection, account_id)
        self.names = list_names(connection, account_id)
        self.price_with: Callable[[str], Price] = cache(partial(price_with, self.book))

        self._find_last_whole = partial(find_last_whole_days, connection, account_id)

    def canonical(self, provider: str, day: date) -> Callable[[str], str]:
        return cache(partial(find_canonical, self.book, provider, day=day))

    def last_whole(self, provider: str) -> tuple[Mapping[str, date], date]:
        """Return the last day that was over when costs were pulled, by connection and of all."""
        pulled = list_providers().get(provider)
        reports = pulled.reports if pulled else ()
        costs = [report.name for report in reports if report.kind in (COSTS, BOTH)]
        return self._find_last_whole(provider, costs)


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


@dataclass
class Cell:
    """A day and model: what was reported of it, counted and billed."""

    reported: Counts = _NONE
    counted: Counts = _NONE
    list_usd: Decimal = NO_USD
    unbilled_usd: Decimal = NO_USD  # of tiers that the cost report leaves out
    pending_usd: Decimal = NO_USD  # of days that weren't over when their costs were pulled
    billed_so_far_usd: Decimal = NO_USD  # of these days, which `billed_usd` leaves out
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
    tokens: "Counter[str]" = field(default_factory=Counter)  # by project

    @property
    def weights(self) -> Mapping[str, Decimal]:
        """Return by what its tokens are divided among its projects: dollars, if it has a price."""
        if self.list_usd:
            return self.projects
        return {project: Decimal(count) for project, count in self.tokens.items()}

    @property
    def billable_usd(self) -> Decimal:
        return self.list_usd - self.unbilled_usd - self.pending_usd


class Coverage:
    """What was reported, counted and billed, by day and model, and which share calls cover."""

    def __init__(
        self,
        connection: Connection,
        account_id: str,
        provider: str,
        days: Days,
        known: Known | None = None,
    ) -> None:
        known, asked = known or Known(connection, account_id), (account_id, provider, days)
        self.names, self._price = known.names, known.price_with(provider)
        self.canonical = known.canonical(provider, days[1])
        self.costs = sum_costs(connection, *asked)
        self._lasts, last = known.last_whole(provider)
        self.cells: dict[Key, Cell] = defaultdict(Cell)
        self._add_usage(provider, sum_usage(connection, *asked))
        for day, model, *counts, calls, listed in sum_counted(connection, *asked):
            cell = self.cells[day, self.canonical(model)]
            cell.counted = tuple(map(add, cell.counted, counts))
            cell.counted_usd += listed
            cell.calls += calls
        for row in self.costs:
            if row.kind == TOKENS and row.currency == USD:
                cell = self.cells[row.day, self.canonical(row.model) if row.model else ""]
                cell.cost_rows += row.rows
                if self._is_pending(row.day, row.connection_id):
                    cell.billed_so_far_usd += row.amount
                else:
                    cell.billed_usd += row.amount
        if not any(cell.names for cell in self.cells.values()):
            # There are only costs, so the calls themselves are what is known of usage.
            uploaded = {row.day for row in self.costs if row.connection_id not in self._lasts}
            for (day, _model), cell in self.cells.items():
                cell.reported, cell.list_usd = cell.counted, cell.counted_usd
                cell.projects[""] += cell.counted_usd
                if day > last and day not in uploaded:
                    cell.pending_usd = cell.unbilled[""] = cell.list_usd
        self.used, self._surplus = find_covered(self.cells)
        self.shares = {key: self._find_share(key, cell) for key, cell in self.cells.items()}

    def _add_usage(self, provider: str, usage: Sequence[Any]) -> None:
        known = list_providers().get(provider)
        unbilled = known.unbilled_tiers if known else ()
        for day, held, project, model, tier, *counts, requests, listed, own, unpriced in usage:
            cell = self.cells[day, self.canonical(model) if model else ""]
            cell.reported = tuple(map(add, cell.reported, counts))
            cell.list_usd += listed
            cell.cost_usd += own
            cell.requests += requests
            cell.unpriced += unpriced
            cell.names[model] += counts[0] + 1
            cell.projects[project] += listed
            cell.tokens[project] += counts[0] + counts[3]
            if tier in unbilled:
                cell.unbilled_usd += listed
                cell.unbilled[project] += listed
            elif self._is_pending(day, held):
                cell.pending_usd += listed
                cell.unbilled[project] += listed

    def _is_pending(self, day: date, connection_id: str) -> bool:
        """Check for a day that wasn't over when its connection last pulled costs."""
        return day > self._lasts.get(connection_id, date.max)

    def _find_share(self, key: Key, cell: Cell) -> Decimal:
        """Return the share of a cell's reported dollars that our calls cover."""
        used = self.used[key]
        if not any(cell.reported):  # of speech, say, which is billed by characters or seconds
            whole, part = cell.list_usd, cell.counted_usd
        elif used in (cell.reported, _NONE):
            return Decimal(used != _NONE)
        else:
            whole, part = self._value(key, cell.reported), self._value(key, used)
            if not whole:
                whole, part = Decimal(sum(cell.reported)), Decimal(sum(used))
        # Tokens of a kind that costs more may be covered where others aren't.
        return min(Decimal(1), part / whole) if whole else NO_USD

    def beyond(self, key: Key) -> Decimal:
        """Return the dollars of what our calls counted beyond the report."""
        cell, surplus = self.cells[key], self._surplus[key]
        counted = any(surplus) and self._value(key, cell.counted)
        return cell.counted_usd * self._value(key, surplus) / counted if counted else NO_USD

    def _value(self, key: Key, counts: Counts) -> Decimal:
        prompt, cached, written, completion = counts
        line = UsageLine(
            bucket=month_start(key[0]),
            model=key[1],
            prompt_tokens=max(prompt, cached + written),
            completion_tokens=completion,
            cached_tokens=cached,
            cache_write_tokens=written,
        )
        return self._price(line) or NO_USD

    def left_of(self, key: Key) -> list[int]:
        """Return the reported tokens that no call covers."""
        prompt, cached, written, completion = map(sub, self.cells[key].reported, self.used[key])
        # Cached tokens are part of a prompt, also where calls have other kinds than the report.
        cached = min(cached, prompt)
        return [prompt, cached, min(written, prompt - cached), completion]

    def list_unsent(self) -> Mapping[tuple[date, str, str], Decimal]:
        """Return the share that calls don't cover of each day, model and project.

        The models are named as they were reported.
        """
        found = {}
        for (day, model), cell in self.cells.items():
            left, weights = 1 - self.shares[day, model], cell.weights
            missing = {project: 1 - self.sent[project] for project in weights}
            rest = sum(weight * missing[project] for project, weight in weights.items())
            for project in weights:
                share = left * sum(weights.values()) * missing[project] / rest if rest else left
                for name in cell.names:
                    found[day, name, project] = min(Decimal(1), share)
        return found

    @cached_property
    def sent(self) -> Mapping[str, Decimal]:
        """Return the share that each project sends, as it explains the coverage of all cells best.

        Calls don't name their project: least squares, with shares from 0 to 1.
        """
        gram: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        right: dict[str, float] = defaultdict(float)
        for key, cell in self.cells.items():
            found = [(project, float(usd)) for project, usd in cell.projects.items() if usd]
            covered = float(cell.list_usd * self.shares[key])
            for project, usd in found:
                right[project] += usd * covered
                for other, more in found:
                    gram[project][other] += usd * more
        projects = sorted({project for cell in self.cells.values() for project in cell.projects})
        sent = dict.fromkeys(projects, 0.5)
        for _round in range(_ROUNDS):
            moved = 0.0
            for project in sorted(gram):
                beside, before = gram[project], sent[project]
                own = beside[project]
                rest = sum(usd * sent[other] for other, usd in beside.items()) - own * before
                sent[project] = min(1.0, max(0.0, (right[project] - rest) / own))
                moved = max(moved, abs(sent[project] - before))
            if moved < _SETTLED:
                break
        # A fit is no measurement: what is nearly 0 or 1 is 0 or 1.
        return {
            project: Decimal(round(share))
            if share < _SILENT or share > 1 - _SILENT
            else Decimal(str(round(share, 6)))
            for project, share in sent.items()
        }


def find_covered(cells: Mapping[Key, Cell]) -> tuple[Mapping[Key, Counts], Mapping[Key, Counts]]:
    """Return the reported tokens that our calls cover, and those that they have beyond them.

    Tokens are compared by kind. What a day has too much covers up to a twelfth of its tokens on
    the days beside it, because of calls around midnight.
    """
    used = {key: tuple(map(min, cell.counted, cell.reported)) for key, cell in cells.items()}
    left = {key: tuple(map(sub, cell.counted, used[key])) for key, cell in cells.items()}
    for (day, model), cell in cells.items():
        for other in ((day - DAY, model), (day + DAY, model)):
            if any(left.get(other, ())) and used[day, model] != cell.reported:
                missing = map(sub, cell.reported, used[day, model])
                most = (count // _AT_MIDNIGHT for count in cells[other].counted)
                moved = tuple(map(min, missing, left[other], most))
                used[day, model] = tuple(map(add, used[day, model], moved))
                left[other] = tuple(map(sub, left[other], moved))
    return used, left


def find_unsent(
    connection: Connection, account_id: str, provider: str, days: Days
) -> list[DailySpend]:
    """Return what the provider reports of these days and no call covers, by day, model and project.

    Each token is in a call or here: a line's counts are the reported ones less the calls'.
    """
    covered, found = Coverage(connection, account_id, provider, days), []
    for (day, model), cell in covered.cells.items():
        left, share = covered.left_of((day, model)), 1 - covered.shares[day, model]
        if not any(left) and not cell.list_usd * share:
            continue
        whole = cell.weights
        weights = {name: weight * (1 - covered.sent[name]) for name, weight in whole.items()}
        if not sum(weights.values()):
            weights = dict(whole) or {"": NO_USD}
        counts = [*left, max(0, cell.requests - cell.calls)]
        dollars = [cell.cost_usd * share, cell.list_usd * share]
        for project, (numbers, amounts) in _spread(weights, counts, dollars).items():
            name = covered.names.get(("project", project), "") or project
            found.append(
                DailySpend(
                    day=day,
                    route=f"{NOT_SENT}: {name}"[:MAX_LABEL] if name else NOT_SENT,
                    provider=provider,
                    model=cell.names.most_common(1)[0][0] if cell.names else model,
                    environment=SOURCE,
                    calls=numbers[4],
                    unpriced_calls=numbers[4] if cell.unpriced and not cell.list_usd else 0,
                    prompt_tokens=numbers[0],
                    cached_tokens=numbers[1],
                    cache_write_tokens=numbers[2],
                    completion_tokens=numbers[3],
                    cost_usd=amounts[0],
                    list_usd=amounts[1],
                )
            )
    return found


def _spread(
    weights: Mapping[str, Decimal], counts: Sequence[int], dollars: Sequence[Decimal]
) -> Mapping[str, tuple[Sequence[int], Sequence[Decimal]]]:
    """Divide counts and dollars by weight, so that the parts add up to the whole exactly."""
    whole, found = sum(weights.values(), NO_USD), {}
    *names, last = sorted(weights, key=lambda name: weights[name])
    for name in names:
        share = weights[name] / whole if whole else NO_USD
        part = [int(count * share) for count in counts]
        amounts = [(usd * share).quantize(_NINE) for usd in dollars]
        if any(part) or any(amounts):
            found[name] = (part, amounts)
            counts, dollars = [*map(sub, counts, part)], [*map(sub, dollars, amounts)]
    return {**found, last: (counts, [usd.quantize(_NINE) for usd in dollars])}
