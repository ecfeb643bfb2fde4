"""A stub that plays GitHub's report of AI credits, as its reference documents it."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any, Final

from service.connections.stub import Answer, Cost, Headers, Query, Stub, Used

KEY: Final = "acme:github_pat_stub"
_MODELS: Final = ("Claude Opus 4.6", "GPT-5", "Gemini 2.5 Pro")
_SKUS: Final = ("Copilot AI Credits", "Copilot Coding Agent AI Credits")


@dataclass
class World:
    """What the organization used and paid: rows with a `time`, a model, credits and discounts."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    key: str = KEY
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def tables(self) -> list[list[dict[str, Any]]]:
        return [self.rows]

    def add(self, random: Random, day: datetime) -> None:
        credits = random.randrange(1, 10_000)
        included = random.choice([0, credits, credits // 2])
        sku = random.choice(_SKUS)
        labels = {"time": day, "model": random.choice(_MODELS), "sku": sku}
        self.rows.append({**labels, "credits": credits, "included": included})

    def used(self) -> Iterator[Used]:
        for row in self.rows:
            yield Used(row["time"], "", "", _id(row), "", (0, 0, 0, 0))

    def costs(self) -> Iterator[Cost]:
        for row in self.rows:
            gross, included = (Decimal(row[name]) / 100 for name in ("credits", "included"))
            yield Cost(row["time"], "", f"{row['sku']}: {_id(row)}", gross)
            if included:
                yield Cost(row["time"], "", "Included in the plan", -included)


def _id(row: dict[str, Any]) -> str:
    return str(row["model"]).lower().replace(" ", "-")


def make_stub(world: World) -> Stub:
    def answer(path: str, query: Query, headers: Headers) -> Answer:
        organization, _colon, token = world.key.partition(":")
        if headers.get("authorization") != f"Bearer {token}":
            return Answer({"message": "Bad credentials", "status": "401"}, 401)
        if path != f"/organizations/{organization}/settings/billing/ai_credit/usage":
            return Answer({"message": "Not Found", "status": "404"}, 404)
        today = world.now()
        year = int(query.get("year", [str(today.year)])[0])
        wanted = {name: int(query[name][0]) for name in ("month", "day") if name in query}
        groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for row in world.rows:
            moment = row["time"]
            is_wanted = all(getattr(moment, name) == value for name, value in wanted.items())
            if moment <= today and moment.year == year and is_wanted:
                groups[row["model"], row["sku"]].append(row)
        items = []
        for (model, sku), rows in groups.items():
            gross, included = (sum(row[name] for row in rows) for name in ("credits", "included"))
            items.append(
                {
                    **{"product": "Copilot", "sku": sku, "model": model, "unitType": "ai-credits"},
                    **{"pricePerUnit": 0.01, "grossQuantity": gross, "grossAmount": gross / 100},
                    **{"discountQuantity": included, "discountAmount": included / 100},
                    **{"netQuantity": gross - included, "netAmount": (gross - included) / 100},
                }
            )
        return Answer(
            {
                "timePeriod": {"year": year, **wanted},
                "organization": organization,
                "usageItems": items,
            }
        )

    return Stub(answer)
