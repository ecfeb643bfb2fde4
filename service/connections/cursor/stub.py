"""A stub that plays the usage events of Cursor's Admin API, as documented."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

from service.connections.stub import Answer, Cost, Headers, Query, Stub, Used

KEY: Final = "key_stub"
_MODELS: Final = ("claude-4.5-sonnet", "gpt-5", "composer-1")
_KINDS: Final = ("Usage-based", "Included in Business", "Errored, No Charge", "User API Key")
_COUNTS: Final = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens")
_LONGEST: Final = timedelta(days=30)


@dataclass
class World:
    """What the team used: events with a `time`, a model, a kind, counts and cents."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    key: str = KEY
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    per_page: int = 500

    @property
    def tables(self) -> list[list[dict[str, Any]]]:
        return [self.rows]

    def add(self, random: Random, day: datetime) -> None:
        moment = day + timedelta(milliseconds=random.randrange(86_400_000))
        self.rows.append(
            {
                **{"time": moment, "model": random.choice(_MODELS), "kind": random.choice(_KINDS)},
                **{name: random.randrange(100_000) for name in _COUNTS},
                "cents": Decimal(random.randrange(1, 10**9)) / 10**6,
            }
        )

    def used(self) -> Iterator[Used]:
        for row in self.rows:
            if row["kind"] != "User API Key":
                fresh, cached, written, completion = (row[name] for name in _COUNTS)
                counts = (fresh + cached + written, cached, written, completion)
                yield Used(row["time"], "", "", row["model"], "", counts)

    def costs(self) -> Iterator[Cost]:
        for row in self.rows:
            if row["kind"].startswith(("Usage", "Included")):
                yield Cost(row["time"], "", row["model"], row["cents"] / 100)
            if row["kind"].startswith("Included"):
                yield Cost(row["time"], "", "Included in the plan", -row["cents"] / 100)


def make_stub(world: World) -> Stub:
    def answer(path: str, query: Query, headers: Headers) -> Answer:
        if headers.get("authorization") != f"Basic {b64encode(f'{world.key}:'.encode()).decode()}":
            return Answer({"error": "Unauthorized", "message": "Invalid API key"}, 401)
        if path != "/teams/filtered-usage-events":
            return Answer({"error": "Not found"}, 404)
        given: dict[str, int] = {name: int(values[0]) for name, values in query.items()}
        first, last = (
            datetime.fromtimestamp(given[name] / 1_000, UTC) for name in ("startDate", "endDate")
        )
        if last - first > _LONGEST:
            return Answer({"error": "Bad Request", "message": "Range is longer than 30 days"}, 400)
        last = min(last, world.now())
        found = [row for row in world.rows if first <= row["time"] <= last]
        found.sort(key=lambda row: row["time"], reverse=True)  # newest first
        size = min(given.get("pageSize", 10), world.per_page)
        page, pages = given.get("page", 1), -(-len(found) // size)
        shown = found[(page - 1) * size : page * size]
        return Answer(
            {
                "totalUsageEventsCount": len(found),
                "pagination": {
                    **{"numPages": pages, "currentPage": page, "pageSize": size},
                    **{"hasNextPage": page < pages, "hasPreviousPage": page > 1},
                },
                "usageEvents": [
                    {
                        "timestamp": str(round(row["time"].timestamp() * 1_000)),
                        **{"model": row["model"], "kind": row["kind"], "maxMode": False},
                        **{"requestsCosts": 1, "isTokenBasedCall": True, "isFreeBugbot": False},
                        **{"isHeadless": False, "isChargeable": row["kind"] == _KINDS[0]},
                        "userEmail": "canary@example.org",
                        "tokenUsage": {
                            **{name: row[name] for name in _COUNTS},
                            "totalCents": float(row["cents"]),
                        },
                        "chargedCents": float(row["cents"]),
                    }
                    for row in shown
                ],
                "period": {"startDate": given["startDate"], "endDate": given["endDate"]},
            }
        )

    return Stub(answer)
