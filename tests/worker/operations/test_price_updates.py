"""The sweeper fetches prices daily; whatever goes wrong, audits use the prices they have."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Engine, delete, func, insert, select, update

from detectors.contract import Report
from service.config import Config
from service.models import PriceUpdate
from service.models.base import utc_now
from service.operations.maintenance.sweeper import PriceUpdates
from service.operations.price_book import VERSION, save_update
from tests.detectors.prices.published import Publisher, make_providers, started_publisher
from tests.worker.support.stored import document, load
from tests.worker.support.waiting import wait_until
from worker import run_audit


@pytest.fixture
def publisher(engine: Engine) -> Iterator[Publisher]:
    """A server with a price book; the stored update is deleted at the end."""
    with started_publisher() as publisher:
        publisher.publish(make_providers(7.0))
        yield publisher
    with engine.begin() as connection:
        connection.execute(delete(PriceUpdate))


@pytest.fixture
def publishing(config: Config, publisher: Publisher) -> Config:
    return replace(config, prices_url=publisher.url)


def sweep(config: Config, engine: Engine) -> None:
    """Take some turns as a sweeper that has just started, until it has fetched."""
    updates = PriceUpdates(config, engine)
    with engine.connect() as connection:
        for _ in range(3):
            updates.take_turn(connection)
            wait_until(lambda: not updates._thread.is_alive(), 10)


def stored(engine: Engine) -> bytes | None:
    with engine.connect() as connection:
        return connection.scalar(select(PriceUpdate.content))


def make_older(engine: Engine, hours: float) -> None:
    with engine.begin() as connection:
        earlier = func.now() - timedelta(hours=hours)
        connection.execute(update(PriceUpdate).values(fetched_at=earlier))


def test_updates_of_versions_that_are_no_longer_in_use_are_deleted(
    publishing: Config, engine: Engine
) -> None:
    with engine.begin() as connection:
        for version, hours in (("0.0.1", 31 * 24), ("0.0.2", 29 * 24)):
            fetched_at = utc_now() - timedelta(hours=hours)
            row = {"version": version, "fetched_at": fetched_at, "content": b""}
            connection.execute(insert(PriceUpdate).values(row))
    sweep(publishing, engine)
    with engine.connect() as connection:
        assert set(connection.scalars(select(PriceUpdate.version))) == {"0.0.2", VERSION}


def version_used(engine: Engine, audit_id: str) -> str:
    run_audit(audit_id)
    assert load(engine, audit_id).status == "done"
    return Report.from_json(document(engine, audit_id) or b"").prices.version


def test_audits_use_the_fetched_prices_from_then_on(
    publishing: Config, publisher: Publisher, engine: Engine, new_audit: Callable[[], str]
) -> None:
    assert version_used(engine, new_audit()) == VERSION
    sweep(publishing, engine)
    assert version_used(engine, new_audit()) == f"{VERSION}+{utc_now().date()}"
    sweep(publishing, engine)  # another sweeper that takes over
    assert publisher.requests == 1


def test_prices_are_fetched_again_after_a_day(
    publishing: Config, publisher: Publisher, engine: Engine
) -> None:
    sweep(publishing, engine)
    make_older(engine, 23.9)
    sweep(publishing, engine)
    assert publisher.requests == 1
    make_older(engine, 24.1)
    publisher.publish(make_providers(8.0))
    sweep(publishing, engine)
    assert publisher.requests == 2
    models = json.loads(stored(engine) or b"")["providers"][0]["models"]
    assert models[0]["prices"]["input_mtok"] == 8.0


@pytest.mark.parametrize(
    ("status", "body"), [(503, b"[]"), (200, b"<html>"), (200, []), (200, [{"id": 5}])]
)
def test_a_failed_update_keeps_the_earlier_prices_and_is_tried_again_later(
    publishing: Config, publisher: Publisher, engine: Engine, status: int, body: object
) -> None:
    sweep(publishing, engine)
    before = stored(engine)
    make_older(engine, 25)
    publisher.status = status
    publisher.publish(body)
    sweep(publishing, engine)
    assert publisher.requests == 2  # not at every turn
    assert stored(engine) == before


def test_without_a_network_audits_use_the_installed_prices(
    config: Config, publisher: Publisher, engine: Engine, new_audit: Callable[[], str]
) -> None:
    sweep(replace(config, prices_url="http://127.0.0.1:9/"), engine)
    assert version_used(engine, new_audit()) == VERSION


def test_nothing_is_fetched_where_it_is_off(
    publishing: Config, publisher: Publisher, engine: Engine
) -> None:
    sweep(replace(publishing, prices_update="off"), engine)
    assert (publisher.requests, stored(engine)) == (0, None)


def test_a_slow_network_delays_no_sweep(
    publishing: Config, publisher: Publisher, engine: Engine
) -> None:
    publisher.goes_on.clear()
    updates = PriceUpdates(publishing, engine)
    with engine.connect() as connection:
        updates.take_turn(connection)
        wait_until(lambda: publisher.requests, 10)
        updates.take_turn(connection)
    assert updates._thread.is_alive()  # it waits, and a sweep does not
    publisher.goes_on.set()
    wait_until(lambda: stored(engine), 10)
    assert publisher.requests == 1


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff"])
def test_a_damaged_update_stops_no_audit(
    publisher: Publisher, engine: Engine, new_audit: Callable[[], str], content: bytes
) -> None:
    with engine.begin() as connection:
        save_update(connection, content)
    assert version_used(engine, new_audit()) == VERSION
