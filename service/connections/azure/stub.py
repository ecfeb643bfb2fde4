"""A stub that plays Azure's sign-in, Cost Management, accounts and Monitor, as documented."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any, Final

from service.connections.stub import Answer, Cost, Headers, Query, Stub, Used

_TENANT: Final = "00000000-0000-4000-8000-000000000001"
_CLIENT: Final = "00000000-0000-4000-8000-000000000002"
_SUBSCRIPTION: Final = "00000000-0000-4000-8000-000000000003"
KEY: Final = f"{_TENANT}:{_CLIENT}:secret:{_SUBSCRIPTION}"
_TOKEN: Final = "stub"  # noqa: S105 - of the stub
_MODELS: Final = ("gpt-4o", "gpt-4.1-mini")
_COUNTS: Final = ("ProcessedPromptTokens", "GeneratedTokens", "AzureOpenAIRequests")
_ACCOUNTS: Final = ("search", "chat")


@dataclass
class World:
    """What the subscription used and paid: rows with a `time`, an account, a model and counts."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    key: str = KEY
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    per_page: int = 1_000
    accounts_per_page: int = 100

    @property
    def tables(self) -> list[list[dict[str, Any]]]:
        return [self.rows]

    def add(self, random: Random, day: datetime) -> None:
        model = random.choice(_MODELS)
        self.rows.append(
            {
                **{"time": day, "model": model, "account": random.choice(_ACCOUNTS)},
                "meter": f"{model} {random.choice(['Inp', 'Outp'])} glbl Tokens",
                **{name: random.randrange(1, 100_000) for name in _COUNTS},
                "cost": Decimal(random.randrange(1, 10**9)) / 10**7,
            }
        )

    def used(self) -> Iterator[Used]:
        for row in self.rows:
            prompt, completion, _calls = (row[name] for name in _COUNTS)
            yield Used(
                row["time"], row["account"], "", row["model"], "", (prompt, 0, 0, completion)
            )

    def costs(self) -> Iterator[Cost]:
        for row in self.rows:
            yield Cost(row["time"], "", f"Azure OpenAI: {row['meter']}", row["cost"])


def make_stub(world: World) -> Stub:
    def answer(path: str, query: Query, headers: Headers) -> Answer:
        parts = world.key.split(":")
        if len(parts) < 4:  # another secret
            return Answer({"error": "invalid_client", "error_codes": [7000215]}, 401)
        tenant, client, *secret, subscription = parts
        is_right = query.get("client_secret") == [":".join(secret)]
        if path == f"/{tenant}/oauth2/v2.0/token" and is_right:
            token = {"token_type": "Bearer", "expires_in": 3_599}
            return Answer({**token, "access_token": f"{_TOKEN}-{client}"})
        if path.endswith("/oauth2/v2.0/token"):
            return Answer({"error": "invalid_request", "error_codes": [90002]}, 400)
        if headers.get("authorization") != f"Bearer {_TOKEN}-{client}":
            return Answer({"error": {"code": "InvalidAuthenticationToken", "message": "x"}}, 401)
        root = f"/subscriptions/{subscription}"
        if path == f"{root}/providers/Microsoft.CostManagement/query":
            return Answer(_costs(world, query))
        if path == f"{root}/providers/Microsoft.CognitiveServices/accounts":
            offset = int(query.get("$skiptoken", ["0"])[0])
            following = offset + world.accounts_per_page
            more = {"nextLink": f"https://elsewhere.example/?$skiptoken={following}"}
            shown = [_account(root, name) for name in _ACCOUNTS[offset:following]]
            return Answer({"value": shown, **(more if following < len(_ACCOUNTS) else {})})
        for name in _ACCOUNTS:
            if path == f"{_account(root, name)['id']}/providers/Microsoft.Insights/metrics":
                return Answer(_metrics(world, name, query))
        return Answer({"error": {"code": "ResourceNotFound", "message": "x"}}, 404)

    return Stub(answer)


def _account(root: str, name: str) -> dict[str, Any]:
    resource = f"{root}/resourceGroups/ai/providers/Microsoft.CognitiveServices/accounts/{name}"
    return {"id": resource, "name": name, "kind": "OpenAI", "location": "westeurope"}


def _costs(world: World, query: Query) -> dict[str, Any]:
    period = json.loads(query["timePeriod"][0])
    first, last = (_moment(period[name]) for name in ("from", "to"))
    sums: dict[tuple[datetime, str, str], Decimal] = defaultdict(Decimal)
    for row in world.rows:
        if first <= row["time"] <= last and row["time"] <= world.now():
            sums[row["time"], "Azure OpenAI", row["meter"]] += row["cost"]
            sums[row["time"], "Dv5 Series", "D2 v5"] += 9
    rows = [
        [float(cost), int(f"{day:%Y%m%d}"), category, meter, "USD"]
        for (day, category, meter), cost in sorted(sums.items())
    ]
    offset = int(query.get("$skiptoken", ["0"])[0])
    following = offset + world.per_page
    link = None
    if following < len(rows):
        link = f"https://elsewhere.example/query?api-version=2025-03-01&$skiptoken={following}"
    columns = [
        *({"name": name, "type": "Number"} for name in ("Cost", "UsageDate")),
        *({"name": name, "type": "String"} for name in ("MeterSubCategory", "Meter", "Currency")),
    ]
    properties = {"nextLink": link, "columns": columns, "rows": rows[offset:following]}
    kind = "Microsoft.CostManagement/query"
    return {"id": "query", "name": "query", "type": kind, "properties": properties}


def _metrics(world: World, account: str, query: Query) -> dict[str, Any]:
    first, last = map(_moment, query["timespan"][0].split("/"))
    names = query["metricnames"][0].split(",")
    sums: dict[tuple[str, str, datetime], int] = defaultdict(int)
    for row in world.rows:
        is_wanted = row["account"] == account and first <= row["time"] < last
        if is_wanted and row["time"] <= world.now():
            for name in names:
                sums[name, row["model"], row["time"]] += row[name]
    value = []
    for name in names:
        series = []
        for model in _MODELS:
            data = [
                {"timeStamp": f"{day:%Y-%m-%dT%H:%M:%SZ}", "total": float(total)}
                for (each, other, day), total in sums.items()
                if (each, other) == (name, model)
            ]
            label = {"name": {"value": "modelname", "localizedValue": "x"}, "value": model}
            series.append({"metadatavalues": [label], "data": data})
        shown = {"name": {"value": name, "localizedValue": name}, "unit": "Count"}
        kind = {"id": name, "type": "Microsoft.Insights/metrics", "errorCode": "Success"}
        value.append({**kind, **shown, "timeseries": series})
    return {"timespan": query["timespan"][0], "interval": "P1D", "value": value}


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
