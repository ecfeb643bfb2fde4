"""GitHub's report of AI credits, and the lines that it becomes.

It sums up whatever period is asked for, so each day is a request. What the plan includes is a
discount in the report; here it is a credit, so that what was used shows and the bill stays what it
is. Credits have no tokens: usage has GitHub's own dollars.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from service.connections.client import Client, WrongKeyError
from service.connections.provider import (
    BOTH,
    CREDIT,
    DAY,
    Asking,
    CostLine,
    Page,
    Provider,
    Report,
    Sight,
    TotalsLine,
    UsageLine,
    Window,
    clean,
)

INCLUDED: Final = "Included in the plan"
_ORGANIZATION: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})")
_PATH: Final = "/settings/billing/ai_credit/usage"

REPORTS: Final = (
    Report(
        name="credits",
        kind=BOTH,
        path=_PATH,
        grouping=("model", "sku"),
        most_buckets=7,  # a request each
        every=DAY / 4,
    ),
)


class GitHubCopilot(Provider):
    name = "github-copilot"
    title = "GitHub Copilot"
    base_url = "https://api.github.com"
    key_prefix = ""
    key_page = "https://github.com/settings/personal-access-tokens"
    key_words = (
        "your organization's name, a colon, and a fine-grained token of an owner that may read "
        "the organization's administration, such as acme:github_pat_…"
    )
    prices_usage = True
    reports: Sequence[Report] = REPORTS

    def open(self, key: str, base_url: str) -> Asking:
        organization, _colon, token = key.partition(":")
        if not token or _ORGANIZATION.fullmatch(organization) is None:
            raise WrongKeyError
        url = f"{(base_url or self.base_url).rstrip('/')}/organizations/{organization}"
        return Client(self, token, url)

    def headers(self, key: str) -> Mapping[str, str]:
        return {
            "Authorization": f"Bearer {key}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }

    def request(self, client: Asking, window: Window, page: str | None) -> Any:
        """Return the days of a window, each as GitHub sums it up."""
        last = window.last or datetime.now(UTC) + DAY
        days = [window.first + number * DAY for number in range((last - window.first).days)]
        return [[f"{day:%Y-%m-%d}", client.get(_PATH, _query(day))] for day in days]

    def read_page(self, report: Report, body: Any) -> Page:
        return Page.of(
            line
            for day, found in body
            for item in found["usageItems"]
            for line in lines_of(
                datetime.fromisoformat(day).replace(tzinfo=UTC),
                sku=clean(item.get("sku")),
                model=clean(item.get("model")),
                gross=Decimal(str(item.get("grossAmount") or 0)),
                discount=Decimal(str(item.get("discountAmount") or 0)),
            )
        )

    def look(self, client: Asking, now: datetime) -> Sight:
        months = [now.date().replace(day=1)]
        for _month in range(2):
            months.append((months[-1] - timedelta(days=1)).replace(day=1))
        found = [(month, client.get(_PATH, _query(month)[:2])) for month in months]
        used = [month for month, body in found if body["usageItems"]]
        first = datetime.combine(min(used), datetime.min.time(), UTC) if used else None
        name = clean(found[0][1].get("organization"))
        return Sight(name, 0, first, identity=[name.lower()])


def _query(day: date) -> Sequence[tuple[str, str]]:
    return (("year", str(day.year)), ("month", str(day.month)), ("day", str(day.day)))


def lines_of(
    day: datetime,
    *,
    sku: str,
    model: str,
    gross: Decimal,
    discount: Decimal,
    project: str = "",
    requests: int = 0,
    prompt: int = 0,
    cached: int = 0,
    written: int = 0,
    completion: int = 0,
) -> Iterator[TotalsLine]:
    """Yield the lines of what a model was used for; the report by hand has more about it."""
    name = model.lower().replace(" ", "-")  # "Claude Opus 4.6" is claude-opus-4.6
    yield UsageLine(
        bucket=day,
        project_id=project,
        model=name,
        context=sku,
        requests=requests,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        cache_write_tokens=written,
        usd=gross,
    )
    yield CostLine(
        bucket=day, project_id=project, line_item=f"{sku}: {name}", model=name, amount=gross
    )
    if discount:
        yield CostLine(
            bucket=day, project_id=project, line_item=INCLUDED, kind=CREDIT, amount=-discount
        )
