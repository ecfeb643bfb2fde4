"""What organizations used and paid at the stubs, at random, and what should be stored of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from itertools import product
from random import Random
from typing import Any

from sqlalchemy import Connection, Engine, func, select, update
from sqlalchemy.orm import Session

from service.config import Config
from service.connections import list_providers
from service.connections.openai.reports import REPORTS
from service.connections.stub import Stub
from service.models import ProviderConnection, ReportedCost, ReportedUsage
from service.models.base import new_id, utc_now
from service.operations.connections.job import pull
from tests.service.support.scenes import add_account

PROJECTS = {"openai": "proj_{}", "anthropic": "wrkspc_{}"}
MODELS = {
    "openai": ("gpt-4o-2024-08-06", "gpt-4o-mini-2024-07-18", "gpt-4-0613"),
    "anthropic": ("claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001"),
}
# Due by the database's clock, wherever a test has moved ours.
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
Sums = dict[tuple[Any, ...], tuple[Any, ...]]


@dataclass
class Provider:
    """A stub with a random organization, and what is right to be stored of it."""

    name: str
    world: Any
    stub: Stub
    random: Random

    @property
    def key(self) -> str:
        return str(self.world.key)

    def add_day(self, day: datetime, rows: int = 6) -> None:
        for _row in range(rows):
            if self.name in _ADDED:
                _ADDED[self.name](self.world, self.random, day)
            else:
                self.world.add(self.random, day)

    def change_day(self, day: datetime) -> None:
        """Change, drop and add rows of a day, as providers do afterwards."""
        for rows in _tables(self.world):
            own = [row for row in rows if row["time"].date() == day.date()]
            for row in own[::3]:
                rows.remove(row)
            for row in own[1::3]:
                for name, value in row.items():
                    if isinstance(value, int) and not isinstance(value, bool):
                        row[name] = value + 7
        self.add_day(day, 2)

    def usage(self, since: datetime) -> Sums:
        if self.name in _USED:
            return _USED[self.name](self.world, since)
        found: dict[tuple[Any, ...], list[int]] = {}
        for row in self.world.used():
            key = (row.time.date(), row.project, row.key, row.model, row.tier)
            _add(found, {"time": row.time}, since, key, list(row.counts))
        return {key: tuple(values) for key, values in found.items()}

    def costs(self, since: datetime) -> Sums:
        found: dict[tuple[Any, ...], Decimal] = {}
        if self.name not in _USED:
            for each in self.world.costs():
                if each.time >= since:
                    key = (each.time.date(), each.project, each.line_item)
                    found[key] = found.get(key, Decimal(0)) + each.amount
            return {key: (value.normalize(),) for key, value in found.items()}
        for row in self.world.costs:
            if row["time"] < since:
                continue
            item = "line_item" if self.name == "openai" else "description"
            project = "project_id" if self.name == "openai" else "workspace_id"
            amount = row["amount"] if self.name == "openai" else row["cents"] / 100
            key = (row["time"].date(), row.get(project) or "", row[item])
            found[key] = found.get(key, Decimal(0)) + amount
        return {key: (value.normalize(),) for key, value in found.items()}


def _tables(world: Any) -> list[list[dict[str, Any]]]:
    if hasattr(world, "tables"):
        return list(world.tables)
    usage = world.usage.values() if isinstance(world.usage, dict) else [world.usage]
    return [*usage, world.costs]


def import_stub(name: str) -> Any:
    return import_module(f"service.connections.{name.replace('-', '_')}.stub")


def make_provider(name: str, seed: int = 1, days: int = 90, rows: int = 6) -> Provider:
    module = import_stub(name)
    world = module.World()
    provider = Provider(name, world, module.make_stub(world), Random(seed))
    today = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    for number in range(1, days):
        provider.add_day(today - timedelta(days=number), rows)
    for number in range(4 if name in PROJECTS else 0):
        project = PROJECTS[name].format(number)
        names = world.projects if name == "openai" else world.workspaces
        names[project] = f"Project {number}"
        world.keys[f"key_{number}"] = (project, f"Key {number}")
    return provider


def _add_openai(world: Any, random: Random, day: datetime) -> None:
    moment = day + timedelta(seconds=random.randrange(86_400))
    cached, written = random.randrange(5_000), random.randrange(3_000)
    uncached = random.randrange(100_000)
    project, key = f"proj_{random.randrange(4)}", f"key_{random.randrange(4)}"
    model = random.choice(MODELS["openai"])
    world.usage["completions"].append(
        {
            **{"time": moment, "project_id": project, "api_key_id": key, "model": model},
            "batch": random.random() < 0.2,
            "service_tier": random.choice(["default", "flex"]),
            "input_tokens": uncached + cached + written,
            "input_cached_tokens": cached,
            "input_cache_write_tokens": written,
            "input_uncached_tokens": uncached,
            "output_tokens": random.randrange(9_000),
            "num_model_requests": random.randrange(1, 50),
        }
    )
    cost = {"time": day, "project_id": project, "line_item": f"{model}, input"}
    world.costs.append({**cost, "amount": _amount(random)})
    if random.random() < 0.2:
        fee = {"time": day, "project_id": project, "line_item": "web search tool calls"}
        world.costs.append({**fee, "amount": _amount(random)})


def _add_anthropic(world: Any, random: Random, day: datetime) -> None:
    moment = day + timedelta(seconds=random.randrange(86_400))
    project = random.choice([None, "wrkspc_1", "wrkspc_2"])
    model = random.choice(MODELS["anthropic"])
    world.usage.append(
        {
            **{"time": moment, "workspace_id": project, "model": model},
            "api_key_id": random.choice([None, "key_1", "key_2"]),
            "service_tier": random.choice(["standard", "batch", "priority"]),
            "context_window": random.choice(["0-200k", "200k-1M"]),
            "inference_geo": random.choice(["global", "us", "not_available"]),
            "uncached_input_tokens": random.randrange(100_000),
            "cache_5m": random.randrange(4_000),
            "cache_1h": random.randrange(4_000),
            "cache_read_input_tokens": random.randrange(60_000),
            "output_tokens": random.randrange(9_000),
            "web_search_requests": random.randrange(3),
        }
    )
    described = {"description": f"{model} Usage - Input Tokens", "cost_type": "tokens"}
    cents = _amount(random) * 100
    world.costs.append(
        {"time": day, "workspace_id": project, "model": model, **described, "cents": cents}
    )


def _amount(random: Random) -> Decimal:
    return Decimal(random.randrange(1, 10**9)) / 10**7


def _openai_usage(world: Any, since: datetime) -> Sums:
    tiers = {"default": ""}
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in world.usage["completions"]:
        tier = "batch" if row["batch"] else tiers.get(row["service_tier"], row["service_tier"])
        key = (row["time"].date(), row["project_id"], row["api_key_id"], row["model"], tier)
        names = ("input_tokens", "input_cached_tokens", "input_cache_write_tokens")
        _add(found, row, since, key, [row[name] for name in (*names, "output_tokens")])
    return {key: tuple(values) for key, values in found.items()}


def _anthropic_usage(world: Any, since: datetime) -> Sums:
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in world.usage:
        tier = "" if row["service_tier"] == "standard" else row["service_tier"]
        labels = (row["workspace_id"] or "", row["api_key_id"] or "", row["model"], tier)
        written = row["cache_5m"] + row["cache_1h"]
        cached = row["cache_read_input_tokens"]
        counts = [row["uncached_input_tokens"] + written + cached, cached, written]
        _add(found, row, since, (row["time"].date(), *labels), [*counts, row["output_tokens"]])
    return {key: tuple(values) for key, values in found.items()}


def _add(
    found: dict[tuple[Any, ...], list[int]],
    row: Mapping[str, Any],
    since: datetime,
    key: tuple[Any, ...],
    counts: list[int],
) -> None:
    if row["time"] >= since:
        found[key] = [a + b for a, b in zip(found.get(key, [0] * 4), counts, strict=True)]


_ADDED = {"openai": _add_openai, "anthropic": _add_anthropic}
_USED = {"openai": _openai_usage, "anthropic": _anthropic_usage}


def stored_usage(session: Session | Connection, connection_id: str) -> Sums:
    table = ReportedUsage
    labels = (table.day, table.project_id, table.key_id, table.model, table.tier)
    names = ("prompt_tokens", "cached_tokens", "cache_write_tokens", "completion_tokens")
    query = select(*labels, *(func.sum(getattr(table, name)) for name in names))
    mine = (table.connection_id == connection_id, table.is_hourly.is_(False), table.model != "")
    rows = session.execute(query.where(*mine).group_by(*labels)).all()
    return {tuple(row[:5]): tuple(map(int, row[5:])) for row in rows}


def stored_costs(session: Session | Connection, connection_id: str) -> Sums:
    table = ReportedCost
    labels = (table.day, table.project_id, table.line_item)
    query = select(*labels, func.sum(table.amount)).where(table.connection_id == connection_id)
    rows = session.execute(query.group_by(*labels)).all()
    return {tuple(row[:3]): (row[3].normalize(),) for row in rows}


def oldest_day(provider: str = "openai") -> datetime:
    """Return the first day that a provider's reports have."""
    today = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=list_providers()[provider].reports[0].days_back - 1)


def make_large(key: str) -> Provider:
    """Return an OpenAI with 90 days of 40 keys and 12 models, in five projects."""
    provider = make_provider("openai", days=1)
    world, today = provider.world, utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    world.key = key
    models = (
        *("gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano", "gpt-4-turbo"),
        *("gpt-5", "gpt-5-mini", "gpt-5-nano", "o1", "o3", "o4-mini"),
    )
    for number, model in product(range(90), models):
        day = {"time": today - timedelta(days=number), "model": model}
        for owner in range(40):
            labels = {"project_id": f"proj_{owner % 5}", "api_key_id": f"key_{owner}"}
            counts = {"input_tokens": 1_000 + owner, "output_tokens": 10, "num_model_requests": 1}
            shown = {"batch": False, "service_tier": "default"}
            world.usage["completions"].append({**day, **labels, **counts, **shown})
        for project in range(5):
            item = {"line_item": f"{model}, input", "amount": Decimal("1.25")}
            world.costs.append({"time": day["time"], "project_id": f"proj_{project}", **item})
    return provider


def forbid_others(provider: Provider) -> None:
    """Forbid reports that have no rows here: each would be as many requests again."""
    if provider.name == "openai":
        paths = {report.path for report in REPORTS} - {"/organization/costs"}
        provider.world.forbidden = paths - {"/organization/usage/completions"}


def add_connected(session: Session, provider: Provider, **fields: Any) -> ProviderConnection:
    account = add_account(session)
    row = ProviderConnection(
        id=new_id(),
        account_id=account.id,
        provider=provider.name,
        key=provider.key,
        next_pull_at=LONG_AGO,
        **fields,
    )
    session.add(row)
    session.commit()
    return row


def pull_all(config: Config, engine: Engine, connection_id: str, seconds: float = 60) -> None:
    """Pull until nothing is due, or until it fails."""
    for _job in range(100):
        pull(config, engine, connection_id, seconds=seconds)
        with engine.connect() as connection:
            row = connection.execute(
                select(ProviderConnection.next_pull_at, ProviderConnection.error).where(
                    ProviderConnection.id == connection_id
                )
            ).one()
        if row.error or row.next_pull_at > datetime.now(UTC):
            return
    raise AssertionError("the pull doesn't end")


def make_due(engine: Engine, connection_id: str, *, hours: float = 0) -> None:
    """Let the connection be due again, as if the last pull were longer ago."""
    with engine.begin() as connection:
        query = select(ProviderConnection.progress).where(ProviderConnection.id == connection_id)
        progress = connection.execute(query).scalar_one()
        for state in progress.values():
            if "at" in state:
                at = datetime.fromisoformat(state["at"]) - timedelta(hours=hours)
                state["at"] = at.isoformat()
        values = {"progress": progress, "next_pull_at": LONG_AGO}
        connection.execute(
            update(ProviderConnection).where(ProviderConnection.id == connection_id).values(values)
        )


Make = Callable[..., Provider]
