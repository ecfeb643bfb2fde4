"""A planted month is taken apart to the part, and what is left unexplained is nothing."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
import time_machine
from sqlalchemy import Connection

from service.connections.anthropic import stub as anthropic
from service.connections.provider import UsageLine
from service.models.calls.call_files import list_due, list_live
from service.models.calls.spend import Selection, sum_spend
from service.models.calls.stored_prices import list_outdated_accounts
from service.models.connections.bill import find_lock
from service.models.connections.unsent import wake_outdated
from service.operations.connections.pricing import price_with
from service.operations.connections.reconciliation import (
    CORRECTION,
    DISCOUNT,
    NOT_SENT,
    UNBILLED,
    Reconciliation,
    reconcile,
)
from service.operations.price_book import find_version, load_prices
from tests.service.connections.connecting import Connected
from tests.service.connections.worlds import Provider
from tests.service.support.spend import add_spend, spend_line

MONTH = date(2026, 10, 1)
DAYS = 31
SILENT = "wrkspc_3"
DISCOUNT_SHARE = Decimal("0.12")
MODELS = ("claude-sonnet-4-5-20250929", "claude-haiku-4-5-20251001", "claude-opus-4-1-20250805")
TOLERANCE = Decimal("0.001")


class Plant:
    """One month of five projects, one of which sends nothing, and what is right to be found."""

    def __init__(self, connection: Connection, seed: int = 5) -> None:
        self.random = Random(seed)
        self.price = price_with(load_prices(connection), "anthropic")
        self.world = anthropic.World(workspaces={f"wrkspc_{n}": f"project-{n}" for n in range(5)})
        self.calls: list[dict[str, Any]] = []
        self.usd = dict.fromkeys(("all", "silent", "priority", "fees"), Decimal(0))
        for number in range(DAYS):
            self._add_day(datetime(2026, 10, 1, 12, tzinfo=UTC) + timedelta(days=number))

    def _add_day(self, moment: datetime) -> None:
        for number in range(5):
            for model in MODELS:
                tier = "priority" if number == 1 and model == MODELS[0] else "standard"
                self._add_usage(moment, f"wrkspc_{number}", model, tier)
        for cost_type, cents in (("web_search", 125), ("code_execution", 310)):
            row = {"time": moment, "workspace_id": "wrkspc_0", "cost_type": cost_type}
            self.world.costs.append({**row, "description": cost_type, "cents": cents})
            self.usd["fees"] += Decimal(cents) / 100

    def _add_usage(self, moment: datetime, project: str, model: str, tier: str) -> None:
        dice = self.random.randrange
        uncached, output = dice(200_000, 2_000_000), dice(20_000, 200_000)
        cached, short, long = dice(900_000), dice(90_000), dice(40_000)
        labels = {"time": moment, "workspace_id": project, "model": model, "service_tier": tier}
        self.world.usage.append(
            {
                **labels,
                **{"api_key_id": f"key_{project}", "context_window": "0-200k"},
                **{"inference_geo": "global", "uncached_input_tokens": uncached},
                **{"cache_5m": short, "cache_1h": long, "cache_read_input_tokens": cached},
                "output_tokens": output,
            }
        )
        line = UsageLine(
            bucket=moment,
            model=model,
            tier="" if tier == "standard" else tier,
            prompt_tokens=uncached + cached + short + long,
            cached_tokens=cached,
            cache_write_tokens=short + long,
            cache_write_1h_tokens=long,
            completion_tokens=output,
        )
        usd = self.price(line)
        assert usd is not None
        self.usd["all"] += usd
        self.usd["silent"] += usd if project == SILENT else 0
        self.usd["priority"] += usd if tier == "priority" else 0
        if tier != "priority":
            described = {"cost_type": "tokens", "description": f"{model} Usage"}
            cents = (usd * (1 - DISCOUNT_SHARE) * 100).quantize(Decimal("0.000001"))
            self.world.costs.append({**labels, **described, "cents": cents})
        if project != SILENT:
            counts = {"calls": 10, "prompt_tokens": line.prompt_tokens, "cached_tokens": cached}
            written = {"cache_write_tokens": short + long, "completion_tokens": output}
            self.calls.append(
                spend_line(
                    moment.date(),
                    str(usd),
                    provider="anthropic",
                    model=model,
                    route=f"route of {project}",
                    **counts,
                    **written,
                )
            )


@pytest.fixture
def plant(connect: Callable[..., Connected]) -> Iterator[tuple[Plant, Connected, Any]]:
    with time_machine.travel(datetime(2026, 11, 12, 9, tzinfo=UTC), tick=True) as clock:
        provider = Provider("anthropic", None, None, Random(1))  # type: ignore[arg-type]
        provider.world = anthropic.World()
        provider.stub = anthropic.make_stub(provider.world)
        connected = connect(provider)
        with connected.engine.connect() as connection:
            planted = Plant(connection)
        vars(provider.world).update(vars(planted.world))
        add_spend(connected.session, connected.account_id, *planted.calls)
        yield planted, connected, clock


def _reconcile(connected: Connected) -> Reconciliation:
    with connected.engine.connect() as connection:
        return reconcile(connection, connected.account_id, "anthropic", MONTH)


def _is_near(found: Decimal, planted: Decimal) -> bool:
    return abs(found - planted) <= abs(planted) * TOLERANCE


def test_a_planted_month_is_taken_apart_until_it_closes(
    plant: tuple[Plant, Connected, Any],
) -> None:
    planted, connected, clock = plant
    connected.pull()
    # A late correction: the provider takes $25 back of one day, after the month was locked.
    with connected.engine.connect() as connection:
        assert find_lock(connection, connected.account_id, "anthropic", MONTH) is not None
    refund = {"cost_type": "tokens", "description": "correction", "cents": -2_500}
    day = datetime(2026, 10, 9, 1, tzinfo=UTC)
    planted_row = {"time": day, "workspace_id": "wrkspc_0", "model": MODELS[0]}
    connected.provider.world.costs.append({**planted_row, **refund})
    clock.move_to(datetime(2026, 12, 1, 9, tzinfo=UTC))
    connected.pull_again()

    found = _reconcile(connected)
    usd = planted.usd
    billed = (usd["all"] - usd["priority"]) * (1 - DISCOUNT_SHARE) + usd["fees"] - 25
    assert _is_near(found.billed_usd, billed)
    assert _is_near(found.reported_usd, usd["all"])
    assert _is_near(found.counted_usd, usd["all"] - usd["silent"])
    assert _is_near(found.part(NOT_SENT), usd["silent"])
    assert _is_near(found.part(DISCOUNT), -DISCOUNT_SHARE * (usd["all"] - usd["priority"]))
    assert _is_near(found.part("web_search"), Decimal("1.25") * DAYS)
    assert _is_near(found.part("code_execution"), Decimal("3.10") * DAYS)
    assert _is_near(found.part(UNBILLED), -usd["priority"])
    assert _is_near(found.part(CORRECTION), Decimal(-25))
    assert found.rate == 1 - DISCOUNT_SHARE
    assert found.proposed_discount == DISCOUNT_SHARE
    [silent] = found.projects
    assert (silent.project_id, silent.project) == (SILENT, "project-3")
    assert _is_near(silent.usd, usd["silent"] * (1 - DISCOUNT_SHARE))
    assert abs(found.unexplained_usd) <= found.billed_usd * TOLERANCE
    total = found.counted_usd + sum((part.usd for part in found.parts), Decimal(0))
    assert total == found.billed_usd
    assert found.locked_usd == found.billed_usd + 25


def test_calls_and_reports_of_the_same_traffic_cover_each_other(
    plant: tuple[Plant, Connected, Any],
) -> None:
    planted, connected, _clock = plant
    world = connected.provider.world
    world.usage[:] = [row for row in world.usage if row["workspace_id"] != SILENT]
    connected.pull()
    found = _reconcile(connected)
    assert found.coverage == 1
    assert found.part(NOT_SENT) == 0
    assert _is_near(found.reported_usd, found.counted_usd)
    # A few percent of a day's tokens, that our clock has on the next day, covers the day before
    # and isn't counted beyond the report.
    with connected.engine.begin() as connection:
        for sign, day in ((-1, date(2026, 10, 10)), (1, date(2026, 10, 11))):
            connection.exec_driver_sql(
                "UPDATE daily_spend SET prompt_tokens = prompt_tokens + %s"
                " WHERE day = %s AND model = %s AND route = 'route of wrkspc_0'",
                (sign * 100_000, day, MODELS[2]),
            )
    found = _reconcile(connected)
    assert _is_near(found.reported_usd, found.counted_usd)
    assert found.part(NOT_SENT) == 0


def _spend(connected: Connected, *keys: str) -> Any:
    days = (date(2026, 10, 1), date(2026, 10, 31))
    with connected.engine.connect() as connection:
        return sum_spend(connection, connected.account_id, Selection(*days, keys=keys))


def test_spend_has_each_token_once_and_says_what_was_not_sent(
    plant: tuple[Plant, Connected, Any],
) -> None:
    planted, connected, _clock = plant
    connected.pull()
    world = connected.provider.world
    tokens = sum(
        row["uncached_input_tokens"]
        + row["cache_5m"]
        + row["cache_1h"]
        + row["cache_read_input_tokens"]
        for row in world.usage
    )
    totals = _spend(connected, "day").totals
    assert totals.prompt_tokens == tokens
    assert totals.completion_tokens == sum(row["output_tokens"] for row in world.usage)
    assert _is_near(totals.list_usd, planted.usd["all"])
    routes = {line.key[0]: line.sums for line in _spend(connected, "route").groups}
    assert _is_near(routes["not sent: project-3"].list_usd, planted.usd["silent"])
    sources = {line.key[0] for line in _spend(connected, "environment").groups}
    assert sources == {"production", "provider reports"}

    connected.pull_again()
    assert _spend(connected, "day").totals == totals


def test_another_currency_is_named_and_without_calls_everything_is_not_sent(
    plant: tuple[Plant, Connected, Any],
) -> None:
    _planted, connected, _clock = plant
    connected.pull()
    with connected.engine.begin() as connection:
        before = reconcile(connection, connected.account_id, "anthropic", MONTH).billed_usd
        connection.exec_driver_sql(
            "INSERT INTO reported_costs (account_id, connection_id, report, bucket_at, day,"
            " project_id, key_id, model, kind, line_item, amount, currency) SELECT account_id,"
            " connection_id, report, bucket_at, day, project_id, key_id, model, kind, line_item,"
            " 99, 'EUR' FROM reported_costs WHERE day = '2026-10-05' LIMIT 1"
        )
    found = _reconcile(connected)
    assert found.billed_usd == before
    assert found.other_currencies == {"EUR": Decimal(99)}
    with connected.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM call_files")
    found = _reconcile(connected)
    assert found.coverage == 0
    assert found.part(NOT_SENT) == found.reported_usd
    assert len(found.projects) == 5
    assert abs(found.unexplained_usd) <= found.billed_usd * TOLERANCE
    # Compaction and prices leave the reported spend alone.
    with connected.engine.connect() as connection:
        assert list_live(connection, connected.account_id) == []
        assert list_outdated_accounts(connection, "another version", 10) == []
        assert connected.account_id not in list_due(connection, date(2027, 1, 1), 10)


def test_calls_that_come_later_take_the_place_of_what_was_not_sent(
    plant: tuple[Plant, Connected, Any],
) -> None:
    planted, connected, _clock = plant
    with connected.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM call_files")
    connected.pull()
    before = _spend(connected, "day").totals
    assert _is_near(before.list_usd, planted.usd["all"])
    add_spend(connected.session, connected.account_id, *planted.calls)
    doubled = _spend(connected, "day").totals
    assert doubled.prompt_tokens > before.prompt_tokens
    with connected.engine.begin() as connection:
        long_ago = "filled_at = '2020-01-01', next_pull_at = now() + interval '1 hour'"
        connection.exec_driver_sql(f"UPDATE provider_connections SET {long_ago}")
        assert wake_outdated(connection, find_version(connection)) == 1
    connected.pull()
    after = _spend(connected, "day").totals
    assert after.prompt_tokens == before.prompt_tokens
    assert _is_near(after.list_usd, planted.usd["all"])
