"""Every figure of money that an account's pages, exports and API answers show, by its name."""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from html import unescape
from typing import Any, Final, NamedTuple

import msgspec

from detectors.wording.money import FIGURES, write_figure

_MARKED: Final = re.compile(
    r'<span data-figure="([^"]*)" data-of="([^"]*)" data-period="([^"]*)">([^<]*)</span>'
)
_AROUND: Final = re.compile("^(about|up to) ")
_SAVINGS: Final = {
    "verified": "verified_savings_usd",
    "estimated": "estimated_savings_usd",
    "conditional": "conditional_savings_high_usd",
}


class Figure(NamedTuple):
    """What carries one name: which figure, of what, and of which days."""

    name: str
    of: str
    period: str


class Figures:
    """The figures that were read, as they were written, with the places that show them."""

    def __init__(self) -> None:
        self.found = defaultdict[Figure, dict[str, set[str]]](lambda: defaultdict(set))

    def read_page(self, place: str, page: str) -> None:
        for name, of, period, words in _MARKED.findall(page):
            assert name in FIGURES, name
            text = _AROUND.sub("", unescape(words))
            self.found[Figure(name, unescape(of), period)][text].add(place)

    def add(self, place: str, figure: Figure, amount: Any) -> None:
        text = write_figure(figure.name, Decimal(str(amount)))
        self.found[figure][text].add(place)

    @property
    def disagreements(self) -> Mapping[Figure, Mapping[str, set[str]]]:
        return {each: dict(texts) for each, texts in self.found.items() if len(texts) > 1}

    @property
    def shared(self) -> list[Figure]:
        """Return the figures that several places show."""
        return [each for each, texts in self.found.items() if len(set().union(*texts.values())) > 1]

    def names(self) -> set[str]:
        return {each.name for each in self.found}


class Account(NamedTuple):
    """How an account's pages and API answers are fetched, as text and as JSON."""

    page: Callable[[str], str]
    api: Callable[[str], str]


def collect(account: Account, today: date, zone: str = "") -> Figures:
    """Read all figures of an account.

    With a zone, pages and their downloads have its days and say so; the API and audits have those
    of UTC, so that no figure of theirs has the name of one on these pages.
    """
    figures = Figures()
    month, thirty = today.replace(day=1), today - timedelta(days=29)
    links: list[str] = []
    for path in (
        *("/dashboard", "/dashboard?days=7", "/spend", "/spend?days=7&group=model", "/compare"),
        *(f"/spend?from={month}&to={today}", "/findings?state=all", "/settings/budgets"),
        *("/imports", "/imports?source=account"),
    ):
        page = account.page(path)
        figures.read_page(path, page)
        links += re.findall(r'href="((?:/findings/[0-9a-f]{32}|/audits/[0-9a-f]{32}))"', page)
        links += [unescape(each) for each in re.findall(r'href="(/(?:route|model)\?[^"]*)"', page)]
    for path in list(dict.fromkeys(links))[:40]:
        figures.read_page(path, account.page(path))
    for first in (month, thirty, today - timedelta(days=6)):
        _add_spend(figures, account, first, today, f" ({zone})" if zone else "")
    _add_compared(figures, account)
    _add_findings(figures, account)
    for audit in _json(account.api("/api/v1/audits?source=account"))["audits"]:
        _add_audit(figures, account, audit)
    return figures


def _json(text: str) -> Any:
    return msgspec.json.decode(text)


def _add_spend(figures: Figures, account: Account, first: date, last: date, whose: str) -> None:
    days = f"from={first}&to={last}"
    spent = Figure("spent", "account", f"{first}/{last}")
    path = f"/api/v1/spend?{days}&group_by=route&limit=200"
    answer = _json(account.api(path))
    figures.add(path, spent, answer["totals"]["cost_usd"])
    for row in answer["spend"]:
        figures.add(path, spent._replace(of=f"route:{row['route']}"), row["cost_usd"])
    if answer["plan_usage"]["calls"]:
        value = Figure("plan_value", "account", f"{first}/{last}")
        figures.add(path, value, answer["plan_usage"]["value_usd"])
    for name, fetch, figure in (
        ("/spend.csv", account.page, spent._replace(period=f"{spent.period}{whose}")),
        ("/api/v1/spend", account.api, spent),
    ):
        path = f"{name}?{days}&group=route&group_by=route&format=csv"
        rows = csv.DictReader(io.StringIO(fetch(path).lstrip("\ufeff")))
        figures.add(path, figure, sum((Decimal(row["cost_usd"]) for row in rows), Decimal(0)))


def _add_compared(figures: Figures, account: Account) -> None:
    answer = _json(account.api("/api/v1/compare"))
    for name in ("before", "after"):
        span = answer[name]
        period = f"{span['from']}/{span['to']}"
        figures.add("/api/v1/compare", Figure("spent", "account", period), span["spend_usd"])


def _add_findings(figures: Figures, account: Account) -> None:
    rows = list(_json(account.api("/api/v1/findings?state=all&limit=200"))["findings"])
    rows += csv.DictReader(io.StringIO(account.page("/findings.csv?state=all").lstrip("\ufeff")))
    for row in rows:
        place = "/findings.csv" if isinstance(row["calls"], str) else "/api/v1/findings"
        of = f"{row['audit_id']}/{row['finding_id']}"
        if int(row["calls"]):
            dollars = row["monthly_cost_impact_usd"]
            figures.add(place, Figure("potential_savings", of, ""), dollars)
        for name, field in (
            ("realized_savings", "realized_savings_usd"),
            ("realized_monthly", "realized_monthly_usd"),
        ):
            if row.get(field):
                figures.add(place, Figure(name, row["id"], ""), row[field])


def _add_audit(figures: Figures, account: Account, audit: Mapping[str, Any]) -> None:
    """Add the figures of an audit of the account, whose days are whole."""
    audit_id = audit["id"]
    report = _json(account.api(f"/api/v1/audits/{audit_id}/report"))
    summary = report["audit"]
    days = [summary[name][:10] for name in ("first_call", "last_call")]
    spent = Figure("spent", "account", "/".join(days))
    path = f"/api/v1/spend?from={days[0]}&to={days[1]}"
    figures.add(path, spent, _json(account.api(path))["totals"]["cost_usd"])
    for place, sums in (("/api/v1/audits", audit), (f"report {audit_id}", summary)):
        figures.add(place, spent, sums["total_spend_usd"])
        figures.add(place, Figure("spent", audit_id, ""), sums["total_spend_usd"])
        figures.add(place, Figure("monthly_spend", audit_id, ""), sums["projected_spend_usd"])
        for name, field in _SAVINGS.items():
            if sums.get(field) is not None:
                figures.add(place, Figure(name, audit_id, ""), sums[field])
    for finding in report["findings"]:
        if finding["monthly_cost_impact_usd"]:
            own = Figure("potential_savings", f"{audit_id}/{finding['id']}", "")
            figures.add(f"report {audit_id}", own, finding["monthly_cost_impact_usd"])
