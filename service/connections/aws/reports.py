"""What Bedrock costs by Cost Explorer, and counts by CloudWatch, and the lines that they become.

Models of others are services of their own, such as "Claude Sonnet 4.5 (Amazon Bedrock Edition)", so
services are looked for by a part of their name. Each request to Cost Explorer costs money.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from service.connections.aws.client import AWSClient
from service.connections.client import WrongKeyError, follow_pages
from service.connections.focus import kind_of
from service.connections.provider import (
    COSTS,
    DAY,
    TOKENS,
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

_REGION: Final = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_DEFAULT_REGIONS: Final = ("us-east-1",)
_COST_EXPLORER: Final = "ce/us-east-1"
_BEDROCK: Final = "Bedrock"  # in the name of each of its services
_EDITION: Final = re.compile(r"(.+) \(Amazon Bedrock Edition\)")
_NAMESPACE: Final = "AWS/Bedrock"
# What CloudWatch counts; input doesn't include what was read from the cache or written to it.
_METRICS: Final = (
    *("InputTokenCount", "CacheReadInputTokenCount", "CacheWriteInputTokenCount"),
    *("OutputTokenCount", "Invocations"),
)
_QUERIES_AT_ONCE: Final = 500
_LOOK_BACK: Final = timedelta(days=30)

REPORTS: Final = (
    Report(
        name="costs",
        kind=COSTS,
        path=_COST_EXPLORER,
        grouping=("SERVICE", "USAGE_TYPE"),
        most_buckets=90,
        every=DAY,
    ),
    Report(
        name="tokens",
        kind=USAGE,
        path="monitoring",
        grouping=("region", "ModelId"),
        most_buckets=90,
        every=DAY / 4,
        is_optional=True,
    ),
)


class AWS(Provider):
    name = "aws"
    title = "AWS"
    base_url = "https://ce.us-east-1.amazonaws.com"
    key_prefix = "AKIA"
    key_page = "https://console.aws.amazon.com/iam/home#/users"
    key_words = (
        "the access key of an IAM user that may read costs and metrics, as ID:secret or with the "
        "regions of Bedrock as ID:secret:us-east-1,eu-central-1"
    )
    pause_seconds = 12 * 3_600.0  # because its requests cost money
    reports: Sequence[Report] = REPORTS

    def open(self, key: str, base_url: str) -> Asking:
        client = AWSClient(self, key, base_url)
        if not all(map(_REGION.fullmatch, client.regions)):
            raise WrongKeyError
        return client

    def request(self, client: Asking, window: Window, page: str | None) -> Any:
        last = window.last or datetime.now(UTC).replace(hour=0, minute=0, second=0) + DAY
        if window.report.kind == COSTS:
            period = _make_period(window.first, last)
            services = _list_values(client, period, "SERVICE", SearchString=_BEDROCK)
            if not services:
                return []
            only = {"Filter": {"Dimensions": {"Key": "SERVICE", "Values": services}}}
            return _get_groups(client, period, "DAILY", ["SERVICE", "USAGE_TYPE"], **only)
        regions = getattr(client, "regions", ()) or _DEFAULT_REGIONS
        return {region: _get_metrics(client, region, window.first, last) for region in regions}

    def read_page(self, report: Report, body: Any) -> Page:
        return Page.of(_read_costs(body) if report.kind == COSTS else _read_metrics(body))

    def look(self, client: Asking, now: datetime) -> Sight:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        first = midnight - _LOOK_BACK
        period = _make_period(first, midnight)
        # All services by month: with only Bedrock's, their names would be one more request.
        months = [
            _read_start(bucket)
            for page in _get_groups(client, period, "MONTHLY", ["SERVICE"])
            for bucket in page["ResultsByTime"]
            if any(_BEDROCK in group["Keys"][0] for group in bucket["Groups"])
        ]
        # A payer sees the accounts of its organization, so a member's key shares one with it.
        accounts = _list_values(client, period, "LINKED_ACCOUNT")
        return Sight("", 0, min(months, default=None), identity=[*map(clean, accounts)])


def _get_groups(
    client: Asking, period: Mapping[str, str], every: str, groups: Sequence[str], **more: Any
) -> list[Any]:
    query = {
        "TimePeriod": period,
        "Granularity": every,
        "Metrics": ["UnblendedCost"],
        "GroupBy": [{"Type": "DIMENSION", "Key": key} for key in groups],
        **more,
    }
    return _get_all(client, f"{_COST_EXPLORER}/GetCostAndUsage", query, "NextPageToken")


def _make_period(first: datetime, last: datetime) -> Mapping[str, str]:
    return {"Start": f"{first:%Y-%m-%d}", "End": f"{last:%Y-%m-%d}"}


def _list_values(
    client: Asking, period: Mapping[str, str], dimension: str, **more: str
) -> Sequence[str]:
    asked = {"TimePeriod": period, "Dimension": dimension, **more}
    found = _get_all(client, f"{_COST_EXPLORER}/GetDimensionValues", asked, "NextPageToken")
    return [each["Value"] for body in found for each in body["DimensionValues"]]


def _get_metrics(client: Asking, region: str, first: datetime, last: datetime) -> list[Any]:
    """Return the daily sums of each model, as (model, metric, result)."""
    asked = {"Namespace": _NAMESPACE, "MetricName": "Invocations"}
    pages = _get_all(client, f"monitoring/{region}/ListMetrics", asked, "NextToken")
    models = sorted(
        {
            metric["Dimensions"][0]["Value"]
            for page in pages
            for metric in page["Metrics"]
            # Other series are parts of the one by model alone.
            if [each["Name"] for each in metric["Dimensions"]] == ["ModelId"]
        }
    )
    wanted = [(model, name) for model in models for name in _METRICS]
    found = []
    for start in range(0, len(wanted), _QUERIES_AT_ONCE):
        some = {f"m{number}": each for number, each in enumerate(wanted)}
        some = dict(list(some.items())[start : start + _QUERIES_AT_ONCE])
        query = {
            "MetricDataQueries": [
                {
                    "Id": key,
                    "MetricStat": {
                        "Metric": {
                            "Namespace": _NAMESPACE,
                            "MetricName": name,
                            "Dimensions": [{"Name": "ModelId", "Value": model}],
                        },
                        "Period": int(DAY.total_seconds()),
                        "Stat": "Sum",
                    },
                }
                for key, (model, name) in some.items()
            ],
            "StartTime": int(first.timestamp()),
            "EndTime": int(last.timestamp()),
        }
        for page in _get_all(client, f"monitoring/{region}/GetMetricData", query, "NextToken"):
            found += [[*some[each["Id"]], each] for each in page["MetricDataResults"]]
    return found


def _get_all(client: Asking, path: str, query: Mapping[str, Any], token: str) -> list[Any]:
    """Return all pages; a page is cut within days, and its token leads to the next."""
    return follow_pages(
        lambda following: client.post(path, {**query, **({token: following} if following else {})}),
        lambda body: body.get(token),
    )


def _read_costs(pages: Sequence[Any]) -> Iterator[CostLine]:
    for page in pages:
        for bucket in page["ResultsByTime"]:
            start = _read_start(bucket)
            for group in bucket["Groups"]:
                service, usage_type = map(clean, group["Keys"])
                amount = group["Metrics"]["UnblendedCost"]
                kind = kind_of(usage_type)
                edition = _EDITION.fullmatch(service) if kind == TOKENS else None
                # "Claude Sonnet 4.5" is claude-sonnet-4-5.
                model = edition[1].lower().replace(" ", "-").replace(".", "-") if edition else ""
                yield CostLine(
                    bucket=start,
                    line_item=clean(f"{service}: {usage_type}"),
                    kind=kind,
                    model=model,
                    amount=Decimal(str(amount["Amount"])),
                    currency=clean(amount["Unit"]).upper(),
                )


def _read_start(bucket: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(bucket["TimePeriod"]["Start"][:10]).replace(tzinfo=UTC)


def _read_metrics(regions: Mapping[str, Sequence[Any]]) -> Iterator[UsageLine]:
    for region, found in regions.items():
        sums: dict[tuple[datetime, str], dict[str, int]] = defaultdict(dict)
        for model, name, result in found:
            for at, value in zip(result["Timestamps"], result["Values"], strict=True):
                day = datetime.fromtimestamp(float(at), UTC)
                day = day.replace(hour=0, minute=0, second=0, microsecond=0)
                counts = sums[day, clean(model)]
                # A page may have a part of a metric.
                counts[name] = counts.get(name, 0) + int(Decimal(str(value)))
        for (day, model), counts in sums.items():
            fresh, cached, written, completion, calls = (counts.get(name, 0) for name in _METRICS)
            yield UsageLine(
                bucket=day,
                project_id=region,
                model=model,
                region=region,
                requests=calls,
                prompt_tokens=fresh + cached + written,
                completion_tokens=completion,
                cached_tokens=cached,
                cache_write_tokens=written,
            )
