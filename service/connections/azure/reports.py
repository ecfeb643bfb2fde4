"""What Azure's model services cost by Cost Management, and count by Monitor, as lines.

Costs name meters, counts name deployments, and neither says which prompt was cached.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit

from service.connections.azure.client import AzureClient
from service.connections.client import UnreadableResponseError, follow_pages
from service.connections.focus import is_of_models, kind_of
from service.connections.provider import (
    COSTS,
    DAY,
    USAGE,
    Asking,
    CostLine,
    Page,
    Provider,
    Report,
    Sight,
    UsageLine,
    Window,
    clean,
)

_COSTS: Final = "providers/Microsoft.CostManagement/query?api-version=2025-03-01"
_ACCOUNTS: Final = "providers/Microsoft.CognitiveServices/accounts"
_METRICS: Final = "providers/Microsoft.Insights/metrics"
_GROUPING: Final = ("MeterSubCategory", "Meter")
_COUNTS: Final = ("ProcessedPromptTokens", "GeneratedTokens", "AzureOpenAIRequests")
_RESOURCE: Final = re.compile(r"/subscriptions/[\w-]+/resourceGroups/[^/?#]+/providers/[^?#]+")
_LOOK_BACK: Final = 30
_SECOND: Final = timedelta(seconds=1)

REPORTS: Final = (
    Report(
        name="costs",
        kind=COSTS,
        path=_COSTS,
        grouping=_GROUPING,
        most_buckets=90,
        every=DAY,
    ),
    Report(
        name="tokens",
        kind=USAGE,
        path=_METRICS,
        grouping=("account", "ModelName"),
        most_buckets=90,
        every=DAY / 4,
        is_optional=True,
    ),
)


class Azure(Provider):
    name = "azure"
    title = "Azure"
    base_url = "https://management.azure.com"
    key_prefix = ""
    key_page = "https://portal.azure.com/#view/Microsoft_AAD_RegisteredApps"
    key_words = (
        "a service principal that may read costs and metrics of a subscription, as "
        "tenant ID:client ID:secret:subscription ID"
    )
    reports: Sequence[Report] = REPORTS

    def open(self, key: str, base_url: str) -> Asking:
        return AzureClient(self, key, base_url)

    def request(self, client: Asking, window: Window, page: str | None) -> Any:
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        last = window.last or midnight + DAY
        get = _get_costs if window.report.kind == COSTS else _get_metrics
        return get(client, window.first, last)

    def read_page(self, report: Report, body: Any) -> Page:
        return Page.of(_read_costs(body) if report.kind == COSTS else _read_metrics(body))

    def look(self, client: Asking, now: datetime) -> Sight:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        found = _read_costs(_get_costs(client, midnight - _LOOK_BACK * DAY, midnight))
        subscription = _subscription(client)
        first = min((line.bucket for line in found), default=None)
        return Sight("", 0, first, identity=[subscription.lower()])


def _subscription(client: Asking) -> str:
    return str(getattr(client, "subscription", ""))


def _get_costs(client: Asking, first: datetime, last: datetime) -> list[Any]:
    """Return all pages. A link to the next names a host, so only its token is used."""
    query = {
        "type": "ActualCost",
        "timeframe": "Custom",
        # The end is inclusive.
        "timePeriod": {"from": first.isoformat(), "to": (last - _SECOND).isoformat()},
        "dataset": {
            "granularity": "Daily",
            "aggregation": {"totalCost": {"name": "Cost", "function": "Sum"}},
            "grouping": [{"type": "Dimension", "name": name} for name in _GROUPING],
        },
    }
    path = f"/subscriptions/{_subscription(client)}/{_COSTS}"
    return follow_pages(
        lambda token: client.post(
            f"{path}&$skiptoken={quote(token, safe='')}" if token else path, query
        ),
        lambda body: _find_token(body["properties"].get("nextLink")),
    )


def _find_token(link: str | None) -> str:
    given = parse_qs(urlsplit(link or "").query)
    tokens = [values[0] for name, values in given.items() if name.lower() == "$skiptoken"]
    if link and not tokens:
        raise UnreadableResponseError
    return tokens[0] if tokens else ""


def _read_costs(pages: Sequence[Any]) -> Iterator[CostLine]:
    for page in pages:
        names = [column["name"] for column in page["properties"]["columns"]]
        for row in page["properties"]["rows"]:
            cells = dict(zip(names, row, strict=True))
            labels = {name: clean(cells[name]) for name in _GROUPING}
            if not is_of_models(labels, *_GROUPING):
                continue
            day = datetime.strptime(str(cells["UsageDate"]), "%Y%m%d").replace(tzinfo=UTC)
            amount = cells["Cost"] if "Cost" in cells else cells["totalCost"]
            yield CostLine(
                bucket=day,
                line_item=clean(": ".join(labels.values())),
                kind=kind_of(labels["Meter"]),
                amount=Decimal(str(amount)),
                currency=clean(cells["Currency"]).upper(),
            )


def _get_metrics(client: Asking, first: datetime, last: datetime) -> list[Any]:
    """Return the daily sums of each account, as (name, answer)."""
    path = f"/subscriptions/{_subscription(client)}/{_ACCOUNTS}"
    version = ("api-version", "2024-10-01")
    pages = follow_pages(
        lambda token: client.get(path, [version, *([("$skiptoken", token)] if token else [])]),
        lambda body: _find_token(body.get("nextLink")),
    )
    found = []
    for account in (each for page in pages for each in page["value"]):
        if _RESOURCE.fullmatch(account["id"]) is None:
            raise UnreadableResponseError
        query = [
            ("api-version", "2024-02-01"),
            ("metricnames", ",".join(_COUNTS)),
            ("timespan", f"{first:%Y-%m-%dT%H:%M:%SZ}/{last:%Y-%m-%dT%H:%M:%SZ}"),
            ("interval", "P1D"),
            ("aggregation", "Total"),
            ("$filter", "ModelName eq '*'"),
        ]
        answer = client.get(f"{account['id']}/{_METRICS}", query)
        found.append([account["name"], answer])
    return found


def _read_metrics(accounts: Sequence[Any]) -> Iterator[UsageLine]:
    for account, answer in accounts:
        sums: dict[tuple[datetime, str], dict[str, int]] = defaultdict(dict)
        for metric in answer["value"]:
            for series in metric["timeseries"]:
                labels = {
                    each["name"]["value"].lower(): each["value"]
                    for each in series["metadatavalues"]
                }
                for point in series["data"]:
                    total = int(Decimal(str(point.get("total") or 0)))
                    if total:
                        moment = datetime.fromisoformat(point["timeStamp"]).astimezone(UTC)
                        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
                        counts = sums[day, clean(labels["modelname"])]
                        name = metric["name"]["value"]
                        counts[name] = counts.get(name, 0) + total
        for (day, model), counts in sums.items():
            prompt, completion, calls = (counts.get(name, 0) for name in _COUNTS)
            yield UsageLine(
                bucket=day,
                project_id=clean(account),
                model=model,
                requests=calls,
                prompt_tokens=prompt,
                completion_tokens=completion,
            )
