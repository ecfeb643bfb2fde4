"""A stub that plays Cost Explorer and CloudWatch, as botocore's models of both describe them."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

from service.connections.stub import Answer, Cost, Headers, Query, Stub, Used

KEY: Final = "AKIASTUB:secret"
_REGION: Final = "us-east-1"
_DAY: Final = timedelta(days=1)
_MODELS: Final = (
    ("anthropic.claude-sonnet-4-5-20250929-v1:0", "Claude Sonnet 4.5 (Amazon Bedrock Edition)"),
    ("amazon.nova-lite-v1:0", "Amazon Bedrock"),
)
_COUNTS: Final = (
    *("InputTokenCount", "CacheReadInputTokenCount", "CacheWriteInputTokenCount"),
    *("OutputTokenCount", "Invocations"),
)


@dataclass
class World:
    """What the account used and paid: rows with a `time`, a model, its service and counts."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    key: str = KEY
    account: str = "123456789012"
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    forbidden: set[str] = field(default_factory=set)
    per_page: int = 10_000

    @property
    def tables(self) -> list[list[dict[str, Any]]]:
        return [self.rows]

    def add(self, random: Random, day: datetime) -> None:
        model, service = random.choice(_MODELS)
        usage = f"USE1-{random.choice(['input', 'output'])}-tokens"
        self.rows.append(
            {
                **{"time": day, "model": model, "service": service, "usage_type": usage},
                **{name: random.randrange(100_000) for name in _COUNTS},
                "usd": Decimal(random.randrange(1, 10**10)) / 10**10,
            }
        )

    def used(self) -> Iterator[Used]:
        for row in self.rows:
            fresh, cached, written, completion, _calls = (row[name] for name in _COUNTS)
            counts = (fresh + cached + written, cached, written, completion)
            yield Used(row["time"], _REGION, "", row["model"], "", counts)

    def costs(self) -> Iterator[Cost]:
        for row in self.rows:
            yield Cost(row["time"], "", f"{row['service']}: {row['usage_type']}", row["usd"])


def make_stub(world: World) -> Stub:
    def answer(path: str, query: Query, headers: Headers) -> Answer:
        access, _colon, _secret = world.key.partition(":")
        if f"Credential={access}/" not in headers.get("authorization", ""):
            return _error("UnrecognizedClientException")
        action = headers.get("x-amz-target", "").rpartition(".")[2]
        if action in world.forbidden:
            return _error("AccessDeniedException")
        given = {
            name: json.loads(text) if text[:1] in ("{", "[") else text
            for name, (text, *_) in query.items()
        }
        actions = {
            ("/ce/us-east-1/", "GetDimensionValues"): _dimension_values,
            ("/ce/us-east-1/", "GetCostAndUsage"): _costs,
            (f"/monitoring/{_REGION}/", "ListMetrics"): _metrics,
            (f"/monitoring/{_REGION}/", "GetMetricData"): _data,
        }
        play = actions.get((path, action))
        return Answer(play(world, given)) if play else _error("UnknownOperationException")

    return Stub(answer)


def _dimension_values(world: World, given: dict[str, Any]) -> Any:
    services = {row["service"] for row in world.rows}
    known: set[str] = {world.account} if given["Dimension"] == "LINKED_ACCOUNT" else services
    found = sorted(name for name in known if given.get("SearchString", "") in name)
    values = [{"Value": name, "Attributes": {}} for name in found]
    return {"DimensionValues": values, "ReturnSize": len(found), "TotalSize": len(found)}


def _costs(world: World, given: dict[str, Any]) -> Any:
    first, last = (
        datetime.fromisoformat(given["TimePeriod"][name]).replace(tzinfo=UTC)
        for name in ("Start", "End")
    )
    services = given["Filter"]["Dimensions"]["Values"] if "Filter" in given else None
    names = [each["Key"].lower() for each in given["GroupBy"]]
    groups: dict[datetime, dict[tuple[str, ...], Decimal]] = defaultdict(
        lambda: defaultdict(Decimal)
    )
    for row in world.rows:
        is_wanted = services is None or row["service"] in services
        if is_wanted and first <= row["time"] < last and row["time"] <= world.now():
            day = row["time"]
            start = max(first, day.replace(day=1)) if given["Granularity"] == "MONTHLY" else day
            groups[start][*(row[name] for name in names)] += row["usd"]
    flat = [
        (day, keys, usd) for day, found in sorted(groups.items()) for keys, usd in found.items()
    ]
    shown, token = _cut(flat, given.get("NextPageToken", ""), world.per_page)
    by_day: dict[datetime, list[Any]] = defaultdict(list)
    for day, keys, usd in shown:
        metrics = {"UnblendedCost": {"Amount": f"{usd:f}", "Unit": "USD"}}
        by_day[day].append({"Keys": list(keys), "Metrics": metrics})
    results = [
        {
            "TimePeriod": {"Start": f"{day:%Y-%m-%d}", "End": f"{day + _DAY:%Y-%m-%d}"},
            **{"Total": {}, "Groups": found, "Estimated": True},
        }
        for day, found in by_day.items()
    ]
    return {"GroupDefinitions": given["GroupBy"], "ResultsByTime": results, **token}


def _metrics(world: World, given: dict[str, Any]) -> Any:
    models = sorted({row["model"] for row in world.rows})
    name = {"Namespace": given["Namespace"], "MetricName": given["MetricName"]}
    by_model = [{**name, "Dimensions": [{"Name": "ModelId", "Value": each}]} for each in models]
    band = {"Name": "ContextWindow", "Value": "long"}
    parts = [{**each, "Dimensions": [*each["Dimensions"], band]} for each in by_model]
    return {"Metrics": [*by_model, *parts, {**name, "Dimensions": []}]}


def _data(world: World, given: dict[str, Any]) -> Any:
    first, last = (
        datetime.fromtimestamp(int(given[name]), UTC) for name in ("StartTime", "EndTime")
    )
    sums: dict[tuple[str, datetime], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in world.rows:
        if first <= row["time"] < last and row["time"] <= world.now():
            for name in _COUNTS:
                sums[row["model"], row["time"]][name] += row[name]
    points = []
    for query in given["MetricDataQueries"]:
        metric = query["MetricStat"]["Metric"]
        model, name = metric["Dimensions"][0]["Value"], metric["MetricName"]
        values = [(day, counts[name]) for (each, day), counts in sums.items() if each == model]
        points += [(query["Id"], name, day, value) for day, value in values]
    shown, token = _cut(points, given.get("NextToken", ""), world.per_page, "NextToken")
    results: dict[str, Any] = {}
    for key, name, day, value in shown:
        empty = {"Timestamps": [], "Values": [], "StatusCode": "Complete"}
        result = results.setdefault(key, {"Id": key, "Label": name, **empty})
        result["Timestamps"].append(day.timestamp())
        result["Values"].append(float(value))
    return {"MetricDataResults": list(results.values()), "Messages": [], **token}


def _cut(
    found: Sequence[Any], token: str, size: int, name: str = "NextPageToken"
) -> tuple[Sequence[Any], dict[str, str]]:
    offset = int(token.removeprefix("page_") or 0) if token else 0
    following = offset + size
    more = {name: f"page_{following}"} if following < len(found) else {}
    return found[offset:following], more


def _error(kind: str) -> Answer:
    return Answer({"__type": f"com.amazon.coral#{kind}", "message": "as documented"}, 400)
