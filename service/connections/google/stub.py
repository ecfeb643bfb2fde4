"""A stub that plays Google's sign-in and BigQuery with a billing export, as documented.

It doesn't read SQL: it answers with what the query of this folder has to find.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any, Final
from zoneinfo import ZoneInfo

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from service.connections.stub import Answer, Cost, Headers, Query, Stub, Used

PROJECT: Final = "acme-billing"
_EMAIL: Final = f"reader@{PROJECT}.iam.gserviceaccount.com"
_TOKEN: Final = "stub"  # noqa: S105 - of the stub
_ROOT: Final = f"/projects/{PROJECT}"
_ACCOUNT: Final = "01ABCD_23EF45_67ABCD"
_TABLES: Final = (
    f"gcp_billing_export_resource_v1_{_ACCOUNT}",
    f"gcp_billing_export_v1_{_ACCOUNT}",
    "cloud_pricing_export",
)
_SKUS: Final = (
    ("Vertex AI", "Gemini 2.5 Flash GA Text Input - Predictions"),
    ("Claude Sonnet 4.5", "Claude Sonnet 4.5 Output Tokens"),
    ("Gemini API", "Grounding with Google Search"),
)
_CALIFORNIA: Final = ZoneInfo("America/Los_Angeles")
_COLUMNS: Final = {
    **{"day": "DATE", "project": "STRING", "service": "STRING", "sku": "STRING"},
    **{"type": "STRING", "currency": "STRING", "cost": "NUMERIC", "credits": "NUMERIC"},
    "list": "NUMERIC",
}


@cache
def make_key() -> str:
    """Return a key as Google writes its file."""
    key = {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key": RSAKey.generate_key(2048).as_pem(private=True).decode(),
        "client_email": _EMAIL,
        "token_uri": "https://elsewhere.example/token",
    }
    return json.dumps(key, indent=2)


@dataclass
class World:
    """What the organization paid: rows with a `time`, a project, a SKU, a cost and a credit."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    key: str = field(default_factory=make_key)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    per_page: int = 10_000
    waits: int = 0  # how often a query isn't done yet
    tables: list[list[dict[str, Any]]] = field(init=False)
    exports: tuple[str, ...] = _TABLES
    written: dict[str, datetime] = field(default_factory=dict)  # when exports were, but for now
    queries: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tables = [self.rows]

    def add(self, random: Random, day: datetime) -> None:
        service, sku = random.choice(_SKUS)
        cost = Decimal(random.randrange(1, 10**10)) / 10**9
        self.rows.append(
            {
                "time": day + timedelta(seconds=random.randrange(86_400)),
                **{"project": random.choice(["search", "chat", None]), "type": "regular"},
                **{"service": service, "sku": sku, "currency": "USD", "cost": cost},
                "credit": -cost / 4 if random.random() < 0.3 else None,
                "list": cost * 2,
            }
        )

    def used(self) -> Iterator[Used]:
        return iter(())

    def costs(self) -> Iterator[Cost]:
        for row in self.rows:
            day = datetime.combine(day_of(row), datetime.min.time(), UTC)
            item, amount = f"{row['service']}: {row['sku']}", row["cost"] + (row["credit"] or 0)
            yield Cost(day, row["project"] or "", item, amount)


def day_of(row: dict[str, Any]) -> date:
    """Return the UTC day of a row, or the nearest one in the month of its invoice."""
    day = row["time"].date()
    month = row.get("invoice") or row["time"].astimezone(_CALIFORNIA).date().replace(day=1)
    end = (month + timedelta(days=32)).replace(day=1) - timedelta(days=1)
    nearest: date = min(max(day, month), end)
    return nearest


def make_stub(world: World) -> Stub:
    def answer(path: str, query: Query, headers: Headers) -> Answer:
        if path == "/token":
            return _sign_in(world, query)
        if headers.get("authorization") != f"Bearer {_TOKEN}-{hash(world.key)}":
            return _error(401, "UNAUTHENTICATED", "authError")
        if path == f"{_ROOT}/datasets":
            found = [
                {
                    "kind": "bigquery#dataset",
                    "id": f"{PROJECT}:{name}",
                    "datasetReference": {"projectId": PROJECT, "datasetId": name},
                    "location": "EU",
                }
                for name in ("billing", "logs")
            ]
            return Answer({"kind": "bigquery#datasetList", "etag": "x", "datasets": found})
        if table := re.fullmatch(rf"{_ROOT}/datasets/billing/tables/(\w+)", path):
            written = world.written.get(table[1], world.now())
            return Answer({"lastModifiedTime": f"{written.timestamp() * 1_000:.0f}"})
        if path.startswith(f"{_ROOT}/datasets/"):
            tables = world.exports if path == f"{_ROOT}/datasets/billing/tables" else ()
            body = {"kind": "bigquery#tableList", "etag": "x", "totalItems": len(tables)}
            billing = {"projectId": PROJECT, "datasetId": "billing"}
            shown = [
                {
                    "kind": "bigquery#table",
                    "id": f"{PROJECT}:billing.{name}",
                    "type": "TABLE",
                    "tableReference": {**billing, "tableId": name},
                }
                for name in tables
            ]
            return Answer({**body, "tables": shown} if shown else body)
        if path == f"{_ROOT}/queries":
            world.queries.append(json.loads(json.dumps(query)) | {"waits": world.waits})
            return Answer(_results(world, len(world.queries) - 1, query))
        if job := re.fullmatch(rf"{_ROOT}/queries/job_(\d+)", path):
            return Answer(_results(world, int(job[1]), query))
        return _error(404, "NOT_FOUND", "notFound")

    return Stub(answer)


def _sign_in(world: World, query: Query) -> Answer:
    try:
        key = RSAKey.import_key(json.loads(world.key)["private_key"])
        claims = jwt.decode(query["assertion"][0], key, ["RS256"]).claims
    except (ValueError, JoseError):
        refused = {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
        return Answer(refused, 400)
    now = datetime.now(UTC).timestamp()
    is_right = (
        query["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        and (claims["iss"], claims["aud"]) == (_EMAIL, "https://oauth2.googleapis.com/token")
        and claims["scope"].startswith("https://www.googleapis.com/auth/")
        and now - 300 < claims["iat"] < now + 300 < claims["exp"] <= claims["iat"] + 3_600
    )
    if not is_right:
        return Answer({"error": "invalid_grant", "error_description": "as documented"}, 400)
    token = {"access_token": f"{_TOKEN}-{hash(world.key)}", "expires_in": 3_599}
    return Answer({**token, "token_type": "Bearer"})


def _results(world: World, number: int, query: Query) -> dict[str, Any]:
    asked = world.queries[number]
    job = {"projectId": PROJECT, "jobId": f"job_{number}", "location": "EU"}
    shared = {"kind": "bigquery#queryResponse", "jobReference": job}
    if asked["waits"]:
        asked["waits"] -= 1
        return {**shared, "jobComplete": False}
    given = {
        each["name"]: each["parameterValue"]["value"]
        for each in json.loads(asked["queryParameters"][0])
    }
    columns, rows = _COLUMNS, _costs(world, given)
    if "DISTINCT" in asked["query"][0]:
        columns = {"id": "STRING", "name": "STRING"}
        rows = [[name, name and name.title()] for name in sorted({row[1] or "" for row in rows})]
    offset = int(query.get("pageToken", ["0"])[0])
    following = offset + world.per_page
    more = {"pageToken": str(following)} if following < len(rows) else {}
    fields = [{"name": name, "type": kind, "mode": "NULLABLE"} for name, kind in columns.items()]
    shown = [{"f": [{"v": cell} for cell in row]} for row in rows[offset:following]]
    sums = {"totalRows": str(len(rows)), "totalBytesProcessed": "1024", "cacheHit": False}
    body = {**shared, "schema": {"fields": fields}, "jobComplete": True, **sums, **more}
    return {**body, "rows": shown} if shown else body


def _costs(world: World, given: dict[str, str]) -> list[list[str | None]]:
    first, last = (date.fromisoformat(given[name]) for name in ("first", "last"))
    sums: dict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [Decimal(0), None, Decimal(0)])
    for row in world.rows:
        day, text = day_of(row), f"{row['service']} {row['sku']}"
        is_wanted = first <= day < last and re.search(given["models"], text)
        if is_wanted and row["time"] <= world.now():
            names = ("project", "service", "sku", "type", "currency")
            found = sums[day, *(row[name] for name in names)]
            found[0] += row["cost"]
            if row["credit"] is not None:
                found[1] = (found[1] or 0) + row["credit"]
            found[2] = None if None in (found[2], row["list"]) else found[2] + row["list"]
    ordered = sorted(sums.items(), key=lambda each: str(each[0]))
    return [
        [key[0].isoformat(), *key[1:], *(None if each is None else f"{each:f}" for each in values)]
        for key, values in ordered
    ]


def _error(status: int, name: str, reason: str) -> Answer:
    errors = [{"message": "as documented", "domain": "global", "reason": reason}]
    shown = {"code": status, "message": "as documented", "errors": errors, "status": name}
    return Answer({"error": shown}, status)
