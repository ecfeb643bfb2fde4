"""A pull that is killed at any moment leaves each bucket as it was, or as the provider says now."""

import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select, update

from service.models import ProviderConnection, ReportedActivity, ReportedCost, ReportedUsage
from service.models.base import utc_now
from tests.service.connections.connecting import NAMES, PAGED, Connected
from tests.service.connections.worlds import (
    Provider,
    forbid_others,
    make_due,
    make_provider,
    oldest_day,
    stored_costs,
    stored_usage,
)
from tests.warm import WarmProcess

# Reports of Anthropic that are pulled beside its usage, or in place of its costs.
ANALYTICS, CLAUDE_CODE = "anthropic_analytics", "claude_code"
# The job that is killed is the same for all.
KILLED = [
    name if name == "openai" else pytest.param(name, marks=pytest.mark.stress)
    for name in (*NAMES, ANALYTICS, CLAUDE_CODE)
]
# What a table has of each of its buckets, whatever that is.
Buckets = Mapping[tuple[str, Any], Mapping[Any, Any]]


@pytest.mark.parametrize(
    "kills", [3, pytest.param(30, marks=pytest.mark.stress)], ids=["at_a_tenth", "in_full"]
)
@pytest.mark.parametrize("name", KILLED)
def test_a_killed_pull_leaves_no_bucket_half_replaced_and_none_twice(
    connect: Callable[..., Connected], name: str, kills: int, tmp_path: Path
) -> None:
    """Kill after a random request of the job, while reports change."""
    provider = _make(name, days=10 if kills < 30 else 60)
    connected = connect(provider)
    connected.pull()
    before = len(provider.stub.requests)
    connected.pull_again()
    most = len(provider.stub.requests) - before
    dice, today = random.Random(3), utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    killed = old = new = 0
    for _round in range(kills * 4):
        words = [_say(provider, name)]
        _change_day(provider, name, today - timedelta(days=dice.randrange(1, 5)))
        words.append(_say(provider, name))
        make_due(connected.engine, connected.id, hours=25)
        # A short pull stores its only bucket late.
        seconds = dice.random() * dice.choice((0.02, 0.2))
        is_killed = _kill_job(connected, dice.randrange(1, most + 1), seconds, tmp_path)
        killed += is_killed
        with connected.engine.begin() as connection:
            # As if its lease had run out.
            connection.execute(update(ProviderConnection).values(lease_expires_at=utc_now()))
            stored = _read(connection, connected.id, name)
        for bucket in {*stored, *words[0], *words[1]}:
            was, said = (word.get(bucket, {}) for word in words)
            assert stored.get(bucket, {}) in (was, said), bucket
            if was != said and is_killed:
                old += stored.get(bucket, {}) == was
                new += stored.get(bucket, {}) == said
        make_due(connected.engine, connected.id, hours=25)
        connected.pull()
        with connected.engine.connect() as connection:
            assert _read(connection, connected.id, name) == words[1]
        if killed == kills:
            break
    assert killed == kills
    if kills == 30:  # the kills came before and after the transactions that they were to hit
        assert old
        assert new
        print(f"{name}: {killed} kills, {old} changed buckets old, {new} new, 0 half, 0 twice")  # noqa: T201


def _kill_job(connected: Connected, requests: int, seconds: float, folder: Path) -> bool:
    """Kill a worker's job a moment after so many requests; return False if it ended before."""
    names = ("secret_key", "database_url", "redis_url", "storage_url", "connection_urls")
    asked = connected.provider.stub.requests
    before = len(asked)
    process = WarmProcess(
        ["tests.service.connections.pulling", connected.id],
        {**os.environ, **{name.upper(): getattr(connected.config, name) for name in names}},
        folder / "log",
        imports=("service.operations.connections.job", "genai_prices.data", "httpx2"),
    )
    while len(asked) - before < requests and process.poll() is None:
        time.sleep(0.001)
    time.sleep(seconds)
    was_running = process.poll() is None
    process.kill()
    process.wait()
    return was_running


def _make(name: str, days: int) -> Provider:
    provider = make_provider(name if name in NAMES else "anthropic", days=days, rows=2)
    forbid_others(provider)
    if provider.name in PAGED:
        provider.world.paging.buckets_per_page = 5
    if name == ANALYTICS:
        provider.world.has_analytics = True
    if name == CLAUDE_CODE:
        today = utc_now()
        for number in range(1, days):
            _add_person(provider, today - timedelta(days=number))
    return provider


def _change_day(provider: Provider, name: str, day: datetime) -> None:
    provider.change_day(day)
    if name == CLAUDE_CODE:
        rows = provider.world.claude_code
        own = [row for row in rows if row["date"].startswith(f"{day:%Y-%m-%d}")]
        for row in own[::3]:
            rows.remove(row)
        for row in own[1::3]:
            row["core_metrics"]["num_sessions"] += 7
        for _person in range(2):
            _add_person(provider, day)


def _add_person(provider: Provider, day: datetime) -> None:
    person = f"{provider.random.randrange(10**9)}@example.org"
    cost = {"amount": provider.random.randrange(1, 900), "currency": "USD"}
    used = {"model": "claude-opus-4-1", "tokens": {"input": 9, "output": 1}, "estimated_cost": cost}
    provider.world.claude_code.append(
        {
            **{"date": f"{day:%Y-%m-%d}T00:00:00Z", "customer_type": "api"},
            **{"actor": {"type": "user_actor", "email_address": person}, "terminal_type": "tmux"},
            **{"core_metrics": {"num_sessions": provider.random.randrange(1, 9)}},
            "model_breakdown": [used],
        }
    )


def _say(provider: Provider, name: str) -> Buckets:
    """Return what the provider says of each bucket, as it should be stored."""
    since = oldest_day(provider.name)
    found: dict[tuple[str, Any], Any] = defaultdict(dict)
    for key, value in provider.usage(since).items():
        found["usage", key[0]][key] = value
    if name == ANALYTICS:
        sums: dict[Any, Decimal] = defaultdict(Decimal)
        for row in provider.world.costs:
            sums[row["time"].date(), row["workspace_id"] or "", row["model"]] += row["cents"] / 100
        for key, usd in sums.items():
            found["costs", key[0]][key] = usd.normalize()
    else:
        for key, value in provider.costs(since).items():
            found["costs", key[0]][key] = value[0].normalize()
    if name == CLAUDE_CODE:
        for row in provider.world.claude_code:
            day = datetime.fromisoformat(row["date"]).date()
            cents = row["model_breakdown"][0]["estimated_cost"]["amount"]
            counts = (1, row["core_metrics"]["num_sessions"], cents)
            before = found["activity", day].get("sums", (0, 0, 0))
            found["activity", day]["sums"] = tuple(map(sum, zip(before, counts, strict=True)))
    for hour, tokens in _list_hours(provider):
        found["hours", hour]["tokens"] = found["hours", hour].get("tokens", 0) + tokens
    return dict(found)


def _list_hours(provider: Provider) -> list[tuple[datetime, int]]:
    """Return the hour and prompt tokens of each row that a report by hour has."""
    if provider.name == "openai":
        rows, names = provider.world.usage["completions"], ["input_tokens"]
    elif provider.name == "anthropic":
        rows = provider.world.usage
        names = ["uncached_input_tokens", "cache_5m", "cache_1h", "cache_read_input_tokens"]
    else:
        return []
    since = utc_now().replace(minute=0, second=0, microsecond=0) - timedelta(days=5)
    hours = [(row["time"].replace(minute=0, second=0, microsecond=0), row) for row in rows]
    return [(hour, sum(row[name] for name in names)) for hour, row in hours if hour >= since]


def _read(connection: Connection, connection_id: str, name: str) -> Buckets:
    """Return what is stored of each bucket."""
    found: dict[tuple[str, Any], Any] = defaultdict(dict)
    for key, value in stored_usage(connection, connection_id).items():
        found["usage", key[0]][key] = value
    if name == ANALYTICS:
        labels = (ReportedCost.day, ReportedCost.project_id, ReportedCost.model)
        costs = select(*labels, func.sum(ReportedCost.amount)).group_by(*labels)
        for cost in connection.execute(costs):
            found["costs", cost[0]][tuple(cost[:3])] = cost[3].normalize()
    else:
        for key, value in stored_costs(connection, connection_id).items():
            found["costs", key[0]][key] = value[0].normalize()
    work, estimated = ReportedActivity.sessions, ReportedActivity.estimated_usd
    people = func.count().filter(ReportedActivity.model == "")
    activity = select(ReportedActivity.day, people, func.sum(work), func.sum(estimated))
    for day in connection.execute(activity.group_by(ReportedActivity.day)):
        found["activity", day[0]]["sums"] = (day[1], int(day[2]), int(day[3] * 100))
    since = utc_now().replace(minute=0, second=0, microsecond=0) - timedelta(days=5)
    bucket, tokens = ReportedUsage.bucket_at, ReportedUsage.prompt_tokens
    hours = select(bucket, func.sum(tokens)).where(ReportedUsage.is_hourly, bucket >= since)
    for hour in connection.execute(hours.group_by(bucket)):
        found["hours", hour[0]]["tokens"] = int(hour[1])
    return dict(found)
