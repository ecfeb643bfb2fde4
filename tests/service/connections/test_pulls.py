"""What is stored of a provider's reports is the provider's last word, whatever happens."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from random import Random
from typing import Any

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from service.connections import list_providers
from service.connections.provider import HOUR
from service.connections.stub import Answer
from service.models import ConnectionPull, ProviderConnection, ReportedCost, ReportedUsage
from service.models.base import utc_now
from service.models.connections.reported import replace_rows
from service.operations.connections.job import pull
from service.operations.connections.reconciliation import reconcile
from service.operations.connections.rows import make_row
from tests.service.connections.connecting import NAMES, PAGED, Connected
from tests.service.connections.reports import Reports
from tests.service.connections.worlds import (
    forbid_others,
    make_due,
    make_provider,
    stored_costs,
    stored_usage,
)
from tests.worker.support.promises import at_both_scales, sampled

_NO_PRICES = (lambda _line: None, lambda _line: None)


@pytest.mark.parametrize("name", sampled(NAMES, 3))
def test_the_last_90_days_are_stored_newest_first_and_then_what_changes_and_vanishes(
    connect: Callable[..., Connected], name: str
) -> None:
    """Also after a pause of weeks; a key that is revoked takes nothing away."""
    connected = connect(make_provider(name, days=120, rows=3))
    connected.pull()
    connected.assert_equal()
    row = connected.row
    assert (row.error, row.failures) == (None, 0)
    assert row.next_pull_at is not None
    assert row.next_pull_at > utc_now()
    query = select(ConnectionPull.report, ConnectionPull.first_at).order_by(ConnectionPull.id)
    pulls = connected.session.execute(query.where(ConnectionPull.last_at.is_not(None))).all()
    for report in {each.report for each in pulls}:
        firsts = [each.first_at for each in pulls if each.report == report]
        assert firsts == sorted(firsts, reverse=True)
    oldest = utc_now() - timedelta(days=8)
    hours = select(func.min(ReportedUsage.bucket_at)).where(ReportedUsage.is_hourly)
    if any(report.width == HOUR for report in list_providers()[name].reports):
        assert connected.session.execute(hours).scalar_one() >= oldest
    today = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    for number in range(1, 5):
        connected.provider.change_day(today - timedelta(days=number))
    connected.pull_again()
    connected.assert_equal()

    provider, paging = connected.provider, getattr(connected.provider.world, "paging", None)
    for number in range(1, 21):
        provider.change_day(today - timedelta(days=number))
    connected.pull_again(hours=24 * 20)
    connected.assert_equal()
    if paging is not None:  # pages without an end
        paging.loops = True
        connected.pull_again()
        assert connected.row.error == "unreadable"
        connected.assert_equal()
        paging.loops = False
    provider.world.key = "another"
    connected.pull_again()
    assert connected.row.error == "revoked"
    connected.assert_equal()
    outcome = select(ConnectionPull.outcome).order_by(ConnectionPull.id.desc()).limit(1)
    assert connected.session.scalar(outcome) == "revoked"


@pytest.mark.parametrize("name", sampled(PAGED, 2))
def test_pages_that_come_twice_count_once_and_tokens_keep_their_parameters(
    connect: Callable[..., Connected], name: str
) -> None:
    provider = make_provider(name, days=40, rows=2)
    forbid_others(provider)
    provider.world.paging.buckets_per_page = 20  # so that each window has two pages at least
    provider.world.paging.repeats_pages = True
    connected = connect(provider)
    connected.pull()
    connected.assert_equal()


@pytest.mark.parametrize("name", sampled(NAMES, 4))
def test_short_faults_are_tried_again_at_once(connect: Callable[..., Connected], name: str) -> None:
    provider = make_provider(name, days=10, rows=2)
    broken, slow = Answer({}, 500), Answer({}, 429, {"Retry-After": "0.01"})
    provider.stub.faults = [broken, slow, None, broken, None, slow]
    connected = connect(provider)
    connected.pull()
    assert connected.row.error is None
    connected.assert_equal()


@pytest.mark.parametrize("name", sampled(NAMES, 4))
def test_a_provider_that_wants_a_pause_gets_it_and_what_was_pulled_stays(
    connect: Callable[..., Connected], name: str
) -> None:
    provider = make_provider(name, days=90, rows=1)
    connected = connect(provider)
    reports = list_providers()[name].reports
    done: list[Any] = [None] * min(4, len(reports) - 1)
    provider.stub.faults = [*done, Answer({}, 429, {"Retry-After": "900"})]
    connected.pull()
    row = connected.row
    assert (row.error, row.failures) == ("throttled", 1)
    assert row.next_pull_at is not None
    assert row.next_pull_at > utc_now() + timedelta(seconds=880)
    before = len(provider.stub.requests)
    make_due(connected.engine, connected.id)
    connected.pull()
    assert connected.row.error is None
    connected.assert_equal()
    paths = [
        (path, tuple(query.get("start_time", query.get("starting_at", []))))
        for path, query in provider.stub.requests[: before - 1]
    ]
    again = [
        (path, tuple(query.get("start_time", query.get("starting_at", []))))
        for path, query in provider.stub.requests[before:]
    ]
    assert not {each for each in paths if each[1]} & {each for each in again if each[1]}


@pytest.mark.parametrize("name", sampled(NAMES, 4))
def test_pauses_grow_while_the_provider_is_down(
    connect: Callable[..., Connected], name: str
) -> None:
    provider = make_provider(name, days=3, rows=1)
    connected = connect(provider)
    pauses = []
    for _try in range(3):
        provider.stub.faults = [Answer({}, 503)] * 3
        make_due(connected.engine, connected.id)
        connected.pull()
        row = connected.row
        assert row.error == "provider_down"
        assert row.next_pull_at is not None
        pauses.append((row.next_pull_at - utc_now()).total_seconds())
    assert pauses[2] > pauses[0] or pauses[0] > 3_600  # as long as the provider wants
    assert connected.row.failing_since is not None


@pytest.mark.parametrize("name", sampled(NAMES, 4))
def test_an_organization_without_use_has_no_rows_and_no_error(
    connect: Callable[..., Connected], name: str
) -> None:
    connected = connect(make_provider(name, days=1))
    connected.pull()
    assert connected.row.error is None
    connected.assert_equal()


def test_an_empty_window_that_is_an_error_deletes_nothing(
    connect: Callable[..., Connected],
) -> None:
    provider = make_provider("anthropic", days=20, rows=2)
    provider.world.empty_is_400 = True
    connected = connect(provider)
    connected.pull()
    assert connected.row.error is None
    connected.assert_equal()


@pytest.mark.parametrize("name", sampled(NAMES, 4))
def test_a_provider_whose_clock_is_behind_loses_nothing(
    connect: Callable[..., Connected], name: str
) -> None:
    provider = make_provider(name, days=20, rows=2)
    provider.world.now = lambda: utc_now() - timedelta(hours=30)
    connected = connect(provider)
    connected.pull()
    provider.world.now = utc_now
    connected.pull_again()
    connected.assert_equal()


def test_a_key_that_may_not_read_one_report_pulls_the_others(
    connect: Callable[..., Connected],
) -> None:
    provider = make_provider("openai", days=10, rows=2)
    provider.world.forbidden = {"/organization/usage/images", "/organization/projects"}
    connected = connect(provider)
    connected.pull()
    assert connected.row.error is None
    connected.assert_equal()


def test_a_worker_that_lost_its_claim_stores_nothing(connect: Callable[..., Connected]) -> None:
    provider = make_provider("openai", days=5, rows=2)
    connected = connect(provider)

    def steal(_path: str, _query: Any) -> None:
        with connected.engine.begin() as connection:
            connection.execute(update(ProviderConnection).values(lease_token="another"))

    provider.stub.faults = [steal]
    pull(connected.config, connected.engine, connected.id)
    with connected.engine.connect() as connection:
        assert stored_usage(connection, connected.id) == {}
        assert stored_costs(connection, connected.id) == {}


def test_labels_have_no_control_characters_and_at_most_200_others(
    connect: Callable[..., Connected],
) -> None:
    provider = make_provider("openai", days=3, rows=0)
    day = utc_now() - timedelta(days=1)
    label = "line\x00 one\n\u202etwo" + "x" * 300
    provider.world.costs.append({"time": day, "line_item": label, "amount": Decimal("1.5")})
    connected = connect(provider)
    connected.pull()
    with connected.engine.connect() as connection:
        stored = connection.scalar(text("SELECT line_item FROM reported_costs"))
    assert len(stored) == 200
    assert stored.isprintable()


@at_both_scales
@pytest.mark.parametrize("name", ["costs", "analytics_costs", "openai"])
def test_random_reports_add_up_exactly(db_session: Session, name: str, share: float) -> None:
    """1,000 reports of floats, or of strings of cents, come through JSON into the database."""
    dice, count, expected = Random(7), int(1_000 * share), Decimal(0)
    provider = list_providers()["openai" if name == "openai" else "anthropic"]
    wanted = "costs" if name == "openai" else name
    [report] = [each for each in provider.reports if each.name == wanted]
    reports = Reports(db_session, provider.name)
    day = datetime(2026, 2, 1, tzinfo=UTC)
    for number in range(count):
        amounts = [_random_amount(dice) for _row in range(dice.randrange(1, 20))]
        rows = [_row_of(name, day, amount) for amount in amounts]
        cents = 1 if name == "openai" else 100
        with localcontext(prec=60):
            expected += sum((Decimal(amount) for amount in amounts), Decimal(0)) / cents
        start = {"starting_at": day.isoformat(), "start_time": int(day.timestamp())}
        data = rows if report.by_rows else [{**start, "results": rows}]
        text = json.dumps({"data": data, "has_more": False, "next_page": None})
        page = provider.read_page(report, json.loads(text, parse_float=str))
        owner = {
            "account_id": reports.account_id,
            "connection_id": reports.id,
            "report": str(number),
        }
        lines = [line for found in page.buckets.values() for line in found]
        stored = [make_row(line, _NO_PRICES, keeps_names=True) for line in lines]
        stored = [{**owner, "report": str(number), **row} for row in stored]
        within, connection = (day, day + timedelta(days=1)), db_session.connection()
        replace_rows(connection, ReportedCost, reports.id, str(number), within, stored)
    assert db_session.scalar(select(func.sum(ReportedCost.amount))) == expected


def _random_amount(dice: Random) -> str:
    """Return a number as JSON has it: with a few digits, 17 of them, an exponent, or a sign."""
    number = dice.choice([1, 1, 1, -1]) * dice.random() * 10 ** dice.randrange(-9, 5)
    return dice.choice([f"{number:.2f}", f"{number:.6f}", repr(number)])


def _row_of(name: str, day: datetime, amount: str) -> dict[str, Any]:
    if name == "openai":
        value = {"value": float(amount), "currency": "usd"}
        return {"amount": value, "line_item": "gpt-4o, input", "project_id": None}
    if name == "costs":
        return {"amount": amount, "currency": "USD", "cost_type": "tokens", "model": "claude"}
    cost = {"amount": amount, "list_amount": amount, "currency": "USD"}
    return {"starting_at": day.isoformat(), "group": {"cost_type": "tokens"}, "cost": cost}


def _reports_of_costs(connected: Connected) -> dict[str, Decimal]:
    query = select(ReportedCost.report, func.sum(ReportedCost.amount))
    with connected.engine.connect() as connection:
        rows = connection.execute(query.group_by(ReportedCost.report)).all()
    return {row[0]: row[1] for row in rows}


def test_costs_are_those_of_the_best_report_that_the_key_may_read(
    connect: Callable[..., Connected],
) -> None:
    """Whichever that is from day to day, no day is counted twice."""
    provider = make_provider("anthropic", days=45, rows=3)
    world, paid = provider.world, Decimal(0)
    for row in world.costs:
        row["list_cents"] = row["cents"] * 2
        paid += row["cents"] / 100
    connected = connect(provider)
    connected.pull()
    assert _reports_of_costs(connected) == {"costs": paid}
    world.has_analytics, world.paging.buckets_per_page = True, 7
    world.paging.repeats_pages = True
    connected.pull_again()
    assert _reports_of_costs(connected) == {"analytics_costs": paid}
    day = utc_now() - timedelta(days=20)
    with connected.engine.connect() as connection:
        found = reconcile(connection, connected.account_id, "anthropic", day.date().replace(day=1))
    assert found.rate == Decimal("0.5")
    world.has_analytics = False
    connected.pull_again()
    assert sum(_reports_of_costs(connected).values()) == paid


@pytest.mark.parametrize("status", sampled([400, 410], 2))
def test_a_better_report_that_is_retired_is_no_loss(
    connect: Callable[..., Connected], status: int
) -> None:
    provider = make_provider("anthropic", days=10, rows=2)
    connected = connect(provider)
    retired = Answer({"type": "error", "error": {"type": "invalid_request_error"}}, status)
    provider.stub.faults = [retired]  # the first request is for the better one
    connected.pull()
    assert "analytics" in provider.stub.requests[0][0]
    connected.assert_equal()


@pytest.mark.parametrize("answer", sampled([Answer([]), Answer({}, 400), Answer({}, 410)], 3))
def test_costs_go_on_while_a_better_report_stays_retired(
    connect: Callable[..., Connected], answer: Answer
) -> None:
    provider = make_provider("anthropic", days=10, rows=2)
    others = provider.stub.answer
    provider.stub.answer = lambda path, *more: (
        answer if "analytics" in path else others(path, *more)
    )
    connected = connect(provider)
    connected.pull()
    today = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    provider.change_day(today - timedelta(days=1))
    connected.pull_again()
    assert connected.row.error is None
    connected.assert_equal()
