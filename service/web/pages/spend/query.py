"""The state of a page about spend, all of it in its URL: range, grouping and filters."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Final
from urllib.parse import urlencode

from detectors.contract import LABEL_PATTERN, MAX_LABEL_LENGTH
from service.models.calls.account_days import IN_UTC, AccountDays
from service.models.calls.spend import MAX_DAYS, Period, Periods, Selection
from service.web.schemas.spend import find_day

PERIODS: Final = (7, 30, 90)
_DAYS: Final = {1: "Today", 7: "7d", 30: "30d", 90: "90d"}
# Ranges by the calendar.
_MONTH, _LAST_MONTH = "month", "last-month"
_MONTHS: Final = {_MONTH: "This month", _LAST_MONTH: "Last month"}
GROUPS: Final = ("route", "model", "provider", "environment")
OWN_PAGES: Final = ("route", "model")
_DEFAULT_DAYS: Final = 30
_LABEL: Final = re.compile(LABEL_PATTERN)
_DAYS_EXPECTED: Final = "Enter both days, from 2000 to 2100."
_ORDER_EXPECTED: Final = "The first day must not be after the last."
_RANGE_EXPECTED: Final = f"Choose at most {MAX_DAYS} days."


@dataclass(frozen=True, kw_only=True)
class Query:
    """What the page shows.

    `days` is the chosen number of days, or 0; `period` a range by the calendar, or "". A range of
    its own has neither.
    """

    first: date
    last: date
    days: int = _DEFAULT_DAYS
    period: str = ""
    group: str = GROUPS[0]
    only: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    path: str = "/spend"
    table: Mapping[str, str] = field(default_factory=dict)  # the state of its table
    fragment: str = ""  # where on the page a browser goes
    groups: Sequence[str] = GROUPS  # what the page groups by; the first by default
    of: AccountDays = IN_UTC  # whose days they are

    @property
    def periods(self) -> Periods:
        """Return the range, after the period before it of the same length."""
        shown = Period(self.first, self.last)
        return shown.previous, shown

    @property
    def selection(self) -> Selection:
        before, _ = self.periods
        return Selection(
            self.first,
            self.last,
            keys=(self.group,),
            only=self.only,
            before=before,
            is_local=self.of.is_local,
        )

    @property
    def parameters(self) -> dict[str, str]:
        """Return the parameters that differ from their defaults."""
        found = self.range
        if self.group != self.groups[0]:
            found["group"] = self.group
        return found | dict(self.only) | dict(self.table)

    @property
    def range(self) -> dict[str, str]:
        """Return the parameters of the range, if it is not the default."""
        if self.period:
            return {"period": self.period}
        if not self.days:
            return {"from": str(self.first), "to": str(self.last)}
        return {} if self.days == _DEFAULT_DAYS else {"days": str(self.days)}

    def url(self, path: str = "", **more: str) -> str:
        """Return the address of this state, on this page by default."""
        address, parameters = path or self.path, urlencode(self.parameters | more)
        address = f"{address}?{parameters}" if parameters else address
        return address if path else f"{address}{self.fragment}"

    def page_url(self, value: str) -> str:
        """Return the address of a route's or a model's own page, in the same range."""
        if self.group not in OWN_PAGES:
            return ""
        named = {"provider": self.only["provider"]} if "provider" in self.only else {}
        named = named if self.group == "model" else {}
        return f"/{self.group}?{urlencode({**named, self.group: value, **self.range})}"

    def during(self, days: int, last: date) -> "Query":
        first = last - timedelta(days=days - 1)
        return replace(self, days=days, period="", last=last, first=first)

    def by_calendar(self, period: str, today: date) -> "Query":
        """Return the month so far, or the one before it."""
        first, last = today.replace(day=1), today
        if period == _LAST_MONTH:
            last = first - timedelta(days=1)
            first = last.replace(day=1)
        return replace(self, days=0, period=period, first=first, last=last)

    def between(self, first: date, last: date) -> "Query":
        return replace(self, days=0, period="", first=first, last=last)

    def presets(self, today: date) -> list[tuple[str, "Query", bool]]:
        """Return the words and the state of each range to choose from, and whether it is shown."""
        found = [(words, self.during(days, today)) for days, words in _DAYS.items()]
        found += [(words, self.by_calendar(each, today)) for each, words in _MONTHS.items()]
        return [(words, each, each.range == self.range) for words, each in found]

    @property
    def is_custom(self) -> bool:
        return not (self.days or self.period)

    def until(self, last: date) -> "Query":
        """Return the default number of days that end with this day."""
        shown = self.during(_DEFAULT_DAYS, last)
        return self.between(shown.first, shown.last)

    def grouped(self, group: str) -> "Query":
        return replace(self, group=group, table={})

    def having(self, key: str, value: str) -> "Query":
        """Filter by one more key, and group by the next one that is not filtered."""
        only = {**self.only, key: value}
        group = next((name for name in self.groups if name not in only), self.group)
        return replace(self, only=only, group=group)

    def narrowed_url(self, value: str) -> str:
        """Return the address of one group; "" if the page shows only that group already."""
        return "" if self.group in self.only else self.having(self.group, value).url()

    def without(self, key: str) -> "Query":
        """Remove a filter, and group by its key again."""
        only = {name: value for name, value in self.only.items() if name != key}
        return replace(self, only=only, group=key)


def read_query(
    parameters: Mapping[str, str],
    of: AccountDays,
    *,
    path: str = "/spend",
    groups: Sequence[str] = GROUPS,
) -> Query:
    """Return the state of a URL; an invalid range is a problem, other bad values are ignored."""
    group, today = parameters.get("group", ""), of.today()
    only = {name: parameters[name] for name in GROUPS if name in parameters}
    shown = Query(
        first=today - timedelta(days=_DEFAULT_DAYS - 1),
        last=today,
        group=group if group in groups else groups[0],
        path=path,
        groups=groups,
        of=of,
        only={name: value for name, value in only.items() if _is_label(value)},
    )
    if parameters.get("from") or parameters.get("to"):
        return _in_range(shown, parameters.get("from", ""), parameters.get("to", ""))
    days = parameters.get("days", "")
    if parameters.get("period") in _MONTHS:
        return shown.by_calendar(parameters["period"], today)
    return shown.during(int(days), today) if days in map(str, _DAYS) else shown


def _is_label(value: str) -> bool:
    return len(value) <= MAX_LABEL_LENGTH and _LABEL.search(value) is not None


def _in_range(shown: Query, first_text: str, last_text: str) -> Query:
    first, last = find_day(first_text), find_day(last_text)
    if first is None or last is None:
        return replace(shown, problem=_DAYS_EXPECTED)
    if first > last:
        return replace(shown, problem=_ORDER_EXPECTED)
    chosen = shown.between(first, last)
    return replace(shown, problem=_RANGE_EXPECTED) if chosen.selection.days > MAX_DAYS else chosen
