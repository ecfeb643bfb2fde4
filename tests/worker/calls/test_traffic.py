"""The audit of an account publishes when its calls came and how long they took."""

from datetime import timedelta

import msgspec
import pytest
from sqlalchemy import Engine, delete, select
from sqlalchemy.orm import Session

from detectors.contract import Traffic, TrafficWindow, percentile_ms
from service.models import Account, TrafficRow
from service.models.calls.traffic import find_traffic
from tests.detectors.reference.builders import series
from tests.worker.calls.test_account_audits import START, NewBatch, audit_account, body


def _find(engine: Engine, account_id: str, **only: str) -> TrafficWindow | None:
    with Session(engine) as session:
        return find_traffic(session, account_id, only)


def _publish(publish: NewBatch, tag: str, hour: int, calls: int = 30) -> None:
    some = [
        msgspec.structs.replace(
            record, ts=START.replace(hour=hour) - timedelta(days=day), tag=tag, latency_ms=800.0
        )
        for day, record in enumerate(series([1.0] * calls))
    ]
    publish(body(some))


def _only(window: TrafficWindow | None) -> Traffic:
    assert window is not None
    (found,) = window.traffic
    return found


def test_an_audit_of_30_days_replaces_the_traffic_of_the_account(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    _publish(publish, "chat", hour=9)
    audit_account(engine, account_id)
    assert _only(_find(engine, account_id, route="chat")).hours[9] == 30
    _publish(publish, "chat", hour=14)
    audit_account(engine, account_id, days=7)  # of another window
    assert _only(_find(engine, account_id)).calls == 30
    audit_account(engine, account_id)
    window = _find(engine, account_id, route="chat")
    found = _only(window)
    # The first call at 9 is 30 days and 5 hours before the newest.
    assert (found.hours[9], found.hours[14], found.calls) == (30, 30, 60)
    assert percentile_ms(found.latencies, 50) == pytest.approx(800, rel=0.025)
    assert window is not None
    assert window.last_call == START.replace(hour=14)
    assert _find(engine, account_id, route="other") is None


def test_traffic_is_deleted_with_its_account(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    _publish(publish, "chat", hour=9, calls=1)
    audit_account(engine, account_id)
    with Session(engine) as session:
        session.execute(delete(Account).where(Account.id == account_id))
        session.commit()
        assert session.scalars(select(TrafficRow)).all() == []
