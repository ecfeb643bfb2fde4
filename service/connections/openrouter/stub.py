"""A stub that plays OpenRouter's activity and workspaces, as its reference documents them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

from service.connections.stub import Answer, Cost, Headers, Query, Stub, Used

KEY: Final = "sk-or-v1-stub"
_DAYS: Final = timedelta(days=30)
_MODELS: Final = (
    ("openai/gpt-4.1", "openai/gpt-4.1-2025-04-14", "OpenAI"),
    ("anthropic/claude-sonnet-4.5", "anthropic/claude-4.5-sonnet-20250929", "Anthropic"),
    ("deepseek/deepseek-chat", "deepseek/deepseek-chat-v3", "DeepInfra"),
)


@dataclass
class World:
    """What the account used and paid: rows as in the report, with a `time` instead of a date."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    workspaces: dict[str, str] = field(default_factory=lambda: {"ws_1": "Search", "ws_2": "Chat"})
    key: str = KEY
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    forbidden: set[str] = field(default_factory=set)

    @property
    def tables(self) -> list[list[dict[str, Any]]]:
        return [self.rows]

    def add(self, random: Random, day: datetime) -> None:
        model, permaslug, provider = random.choice(_MODELS)
        counts = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "requests")
        self.rows.append(
            {
                "time": day,
                "workspace_id": random.choice(list(self.workspaces)),
                **{"model": model, "model_permaslug": permaslug, "provider_name": provider},
                "endpoint_id": f"{random.randrange(10**12):036d}",
                **{name: random.randrange(1, 100_000) for name in counts},
                "usage": Decimal(random.randrange(1, 10**9)) / 10**7,
                "byok_usage_inference": Decimal(0),
            }
        )

    def used(self) -> Iterator[Used]:
        for row in self.rows:
            counts = (row["prompt_tokens"], 0, 0, row["completion_tokens"])
            yield Used(row["time"], row["workspace_id"], "", row["model"], "", counts)

    def costs(self) -> Iterator[Cost]:
        for row in self.rows:
            yield Cost(row["time"], row["workspace_id"], row["model"], row["usage"])


def make_stub(world: World) -> Stub:
    def answer(path: str, query: Query, headers: Headers) -> Answer:
        path = path.removeprefix("/api/v1")
        if headers.get("authorization") != f"Bearer {world.key}":
            return _error(401, "User not found.")
        if path in world.forbidden:
            return _error(403, "Only management keys can perform this operation")
        if path == "/activity":
            today = world.now().replace(hour=0, minute=0, second=0, microsecond=0)
            shown = [row for row in world.rows if today - _DAYS <= row["time"] < today]
            if "date" in query:
                shown = [row for row in shown if f"{row['time']:%Y-%m-%d}" == query["date"][0]]
            by_workspace = query.get("group_by") == ["workspace"]
            return Answer({"data": [_row(row, by_workspace=by_workspace) for row in shown]})
        if path == "/workspaces":
            offset, limit = int(query.get("offset", ["0"])[0]), int(query.get("limit", ["50"])[0])
            found = [
                {"id": each, "name": name, "slug": name.lower(), "description": None}
                for each, name in world.workspaces.items()
            ]
            total = {"total_count": len(found)}
            return Answer({"data": found[offset : offset + limit], **total})
        return _error(404, "Not found")

    return Stub(answer)


def _row(row: dict[str, Any], *, by_workspace: bool) -> dict[str, Any]:
    own = {"date": f"{row['time']:%Y-%m-%d}", **row}
    own |= {name: float(own[name]) for name in ("usage", "byok_usage_inference")}
    left_out = {"time"} if by_workspace else {"time", "workspace_id"}
    return {name: value for name, value in own.items() if name not in left_out}


def _error(status: int, message: str) -> Answer:
    return Answer({"error": {"code": status, "message": message}}, status)
