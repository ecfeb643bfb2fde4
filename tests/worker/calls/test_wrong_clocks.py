"""Calls of wrong clocks harm nothing but themselves: those of 2000, of 2034, and of 2099."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine, func, select, text, update
from sqlalchemy.orm import Session

from detectors.contract import Report
from service.core.blobs import BlobStore
from service.models import (
    AccountCalls,
    AccountFinding,
    Audit,
    Budget,
    DeletedCalls,
    FindingChange,
    SpendRow,
    TrafficRow,
)
from service.models.base import utc_now
from service.models.calls.account_audits import list_due_accounts
from service.models.calls.call_files import list_due
from service.models.calls.future_calls import (
    delete_future_calls,
    is_deleting,
    list_future_calls,
    sum_future_calls,
)
from service.models.calls.spend import find_last_day, sum_days
from service.operations.findings.periods import measure_all_realized
from service.operations.findings.realized import measure_realized
from service.operations.watching.budgets import list_states
from service.operations.watching.month import days_needed, look_at_month
from service.operations.watching.weekly_digest import summarize_week
from tests.worker.calls.test_account_audits import audit_account, report_of
from tests.worker.calls.test_call_store import stored_ids
from tests.worker.support.promises import sampled
from tests.worker.support.stored import document
from worker import compact_calls, run_audit

NewBatch = Callable[..., str]
CALLS = 1_000
DAYS = 14
PAST, FAR, FARTHER = (datetime(year, 1, 2, 12, tzinfo=UTC) for year in (2000, 2034, 2099))


def usual_calls(now: datetime) -> list[dict[str, Any]]:
    """Return 1,000 calls of 14 days until an hour ago; every tenth is repeated within seconds."""
    begin, step = now - timedelta(days=DAYS), timedelta(days=DAYS, hours=-1) / (CALLS * 4 // 5)
    moments = [
        begin + number * step + timedelta(seconds=seconds)
        for number in range(CALLS * 4 // 5)
        for seconds in ((0, 4, 9) if number % 8 == 0 else (0,))
    ]
    return [call(at, f"usual-{number}") for number, at in enumerate(moments[:CALLS])]


def call(at: datetime, name: str, route: str = "agent") -> dict[str, Any]:
    return {
        "ts": at.isoformat(),
        "provider": "openai",
        "model": "gpt-4.1",
        "prompt_tokens": 4_000,
        "completion_tokens": 900,
        "tag": route,
        "request_id": name,
    }


def body(calls: Sequence[dict[str, Any]]) -> bytes:
    return msgspec.json.encode({"records": list(calls)})


def audit_calls(engine: Engine, account_id: str) -> Report:
    return report_of(engine, audit_account(engine, account_id).id)


def figures(engine: Engine, account_id: str, now: datetime) -> dict[str, Any]:
    """Audit the account; return all that its pages, notices and mails are made from."""
    report, today = audit_calls(engine, account_id), now.date()
    monday = today - timedelta(days=today.weekday())
    with Session(engine) as session:
        month = sum_days(session, account_id, days_needed(today))
        newest = find_last_day(session, account_id, today)
        periods = ((today.replace(day=1), today), (date(2000, 1, 1), date(2000, 1, 2)))
        findings = (AccountFinding.detector, AccountFinding.state, AccountFinding.monthly_usd)
        traffic = select(TrafficRow.calls, TrafficRow.hours, TrafficRow.last_call)
        return {
            "findings": report.findings,
            "totals": report.audit,
            "states": session.execute(
                select(*findings, AccountFinding.last_seen).where(
                    AccountFinding.account_id == account_id
                )
            ).all(),
            "budgets": [
                (each.route, each.spend_usd, each.forecast_usd, each.reached)
                for each in list_states(session, account_id, today)
            ],
            "month": look_at_month(month, today),
            "last_day": newest,
            "realized": measure_all_realized(session, account_id, {}, periods, newest),
            "week": summarize_week(session.connection(), account_id, monday, now),
            "traffic": session.execute(traffic.where(TrafficRow.account_id == account_id)).all(),
        }


def future_calls(report: Report) -> int:
    return (report.data_quality and report.data_quality.future_calls) or 0


@pytest.mark.parametrize("place", sampled([1, 0, 2], 3, ["between", "before", "after"]))
def test_calls_of_wrong_clocks_change_no_figure(
    place: int, engine: Engine, account_id: str, other_account_id: str, publish: NewBatch
) -> None:
    now = utc_now()
    usual = usual_calls(now)
    batches = [usual[::2], usual[1::2]]
    for owner in (account_id, other_account_id):
        with Session(engine) as session:
            for route, amount in ((None, 20), ("agent", 9)):
                session.add(Budget(account_id=owner, route=route, amount_usd=Decimal(amount)))
            session.commit()
    for each in batches:
        publish(body(each), "ingest", other_account_id)
    expected = figures(engine, other_account_id, now)
    wrong = [call(at, f"wrong-{at.year}") for at in (PAST, FAR, FARTHER)]
    batches.insert(place, [*wrong, call(now + timedelta(days=2), "ahead")])
    for number, each in enumerate(batches):
        publish(body(each))
        if number == 1:
            audit_calls(engine, account_id)
    assert figures(engine, account_id, now) == expected
    assert [row[1] for row in expected["states"]] == ["open"]
    report = audit_calls(engine, account_id)
    assert (report.audit.records, future_calls(report)) == (CALLS, 3)
    assert changes(engine, account_id) == []


def changes(engine: Engine, account_id: str) -> list[str]:
    query = select(FindingChange.after).join(
        AccountFinding, AccountFinding.id == FindingChange.account_finding_id
    )
    with Session(engine) as session:
        own = query.where(AccountFinding.account_id == account_id).order_by(FindingChange.id)
        return list(session.scalars(own))


def test_an_import_says_how_many_of_its_calls_are_dated_in_the_future(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    now = utc_now()
    ahead = [timedelta(hours=-1), timedelta(hours=23), timedelta(hours=25), timedelta(days=400)]
    audit_id = publish(body([call(now + each, f"r{each}") for each in ahead]))
    stored = document(engine, audit_id)
    assert stored is not None
    report = Report.from_json(stored)
    assert (report.audit.records, future_calls(report)) == (4, 2)
    with engine.begin() as connection:  # it was sent later, so a rerun counts fewer
        later = {"created_at": now + timedelta(days=30), "status": "queued"}
        connection.execute(update(Audit).where(Audit.id == audit_id).values(**later))
    run_audit(audit_id)
    stored = document(engine, audit_id)
    assert stored is not None
    assert future_calls(Report.from_json(stored)) == 1


def test_calls_enter_when_their_time_comes(
    engine: Engine, account_id: str, publish: NewBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = utc_now()
    publish(body([call(now - timedelta(hours=1), "now"), call(now + timedelta(days=3), "ahead")]))
    assert audit_calls(engine, account_id).audit.records == 1
    for days, is_due in ((1, False), (2, True), (3, True)):
        monkeypatch.setattr(
            "service.models.calls.account_audits.utc_now", lambda days=days: now + timedelta(days)
        )
        with engine.connect() as connection:
            audited = {"last_audit_at": func.now() - timedelta(days=1)}
            audited["last_import_at"] = func.now() - timedelta(days=2)
            connection.execute(update(AccountCalls).values(**audited))
            assert list_due_accounts(connection, 10) == ([account_id] if is_due else [])
            connection.rollback()
    monkeypatch.setattr("worker.utc_now", lambda: now + timedelta(days=2, minutes=1))
    assert audit_calls(engine, account_id).audit.records == 2


def test_an_account_whose_calls_are_all_in_the_future_has_an_empty_report(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    publish(body([call(FAR, "far"), call(FARTHER, "farther")]))
    report = audit_calls(engine, account_id)
    assert (report.audit.records, report.findings, future_calls(report)) == (0, (), 2)


def test_nothing_is_fixed_by_audits_with_less_than_half_of_the_calls_of_14_days(
    engine: Engine, account_id: str, publish: NewBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """29 days later, hardly any calls are left in the window, audit after audit."""
    now = utc_now()
    publish(body(usual_calls(now)))
    audit_calls(engine, account_id)
    _let_days_pass(engine, 20)  # without an audit
    later = now + timedelta(days=29)
    clean = [call(later - timedelta(hours=hours), f"clean-{hours}") for hours in range(300)]
    publish(body(clean))
    monkeypatch.setattr("worker.utc_now", lambda: later)
    for days in (6, 7, 2):
        assert audit_calls(engine, account_id).audit.records < CALLS / 2
        assert changes(engine, account_id) == []
        _let_days_pass(engine, days)
    audit_calls(engine, account_id)  # the calls have been as few for 15 days
    assert changes(engine, account_id) == ["fixed"]


def _let_days_pass(engine: Engine, days: int) -> None:
    with engine.begin() as connection:
        older = Audit.created_at - timedelta(days=days)
        connection.execute(update(Audit).values(created_at=older))


def test_no_call_in_the_future_shows_that_a_route_is_used(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    now = utc_now()
    # They end at noon: a call of the next day would show that the route is used.
    wasted = usual_calls(now.replace(hour=12) - timedelta(days=20))
    other = [call(now - timedelta(hours=h), f"other-{h}", route="other") for h in range(600)]
    publish(body([*wasted, *other, call(FAR, "far")]))
    audit_calls(engine, account_id)
    audit_calls(engine, account_id)
    assert changes(engine, account_id) == []


def test_what_an_earlier_release_fixed_beside_a_call_in_the_future_is_open_again(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    publish(body(usual_calls(utc_now())))
    audit_calls(engine, account_id)
    with engine.begin() as connection:
        fixed = {"state": "fixed", "fixed_at": AccountFinding.last_seen}
        connection.execute(update(AccountFinding).values(**fixed))
    audit_calls(engine, account_id)
    assert changes(engine, account_id) == ["open"]
    with engine.begin() as connection:
        connection.execute(update(AccountFinding).values(last_seen=FAR))
    audit_calls(engine, account_id)
    with engine.connect() as connection:
        (last_seen,) = connection.scalars(select(AccountFinding.last_seen))
    assert last_seen <= utc_now()


def test_realized_savings_end_with_today(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    now = utc_now()
    publish(body(usual_calls(now)))
    audit_calls(engine, account_id)
    with engine.begin() as connection:
        fixed_at = now - timedelta(days=4)
        connection.execute(update(AccountFinding).values(state="fixed", fixed_at=fixed_at))

    def measure() -> Any:
        with Session(engine) as session:
            (finding,) = session.scalars(select(AccountFinding))
            newest = find_last_day(session, account_id, now.date())
            periods = ((now.date(), now.date()), (PAST.date(), PAST.date()))
            return (
                measure_realized(session.connection(), account_id, [finding.id]),
                measure_all_realized(session, account_id, {}, periods, newest),
            )

    before = measure()
    publish(body([call(now + timedelta(days=2), "ahead"), call(FAR, "far"), call(PAST, "past")]))
    assert before[1].measured == 1
    assert measure() == before


def delete_calls(engine: Engine, account_id: str, first: date = date.min) -> int:
    with Session(engine) as session:
        today = utc_now().date()
        deleted = delete_future_calls(session, account_id, today, (first, date.max))
        session.commit()
    return deleted


def spent(engine: Engine, account_id: str) -> tuple[int, Any, list[Any]]:
    """Return all calls and dollars of the account's spend, and what lies after today."""
    query = select(func.sum(SpendRow.calls), func.sum(SpendRow.cost_usd))
    today = utc_now().date()
    with Session(engine) as session:
        calls, cost = session.execute(query.where(SpendRow.account_id == account_id)).one()
        ahead = sum_future_calls(session, account_id, today)
        lines = list_future_calls(session, account_id, today)
    assert (ahead.calls, ahead.cost_usd) == (
        sum(line.calls for line in lines),
        sum((line.cost_usd for line in lines), Decimal(0)),
    )
    return int(calls or 0), cost, [(line.day, line.route, line.calls) for line in lines]


@pytest.mark.parametrize("is_merged", sampled([True, False], 2))
def test_deleted_calls_are_gone_from_the_files_and_the_spend(
    is_merged: bool,
    engine: Engine,
    blobs: BlobStore,
    account_id: str,
    other_account_id: str,
    publish: NewBatch,
) -> None:
    now = utc_now()
    usual = [call(now - timedelta(hours=hours), f"usual-{hours}") for hours in range(40)]
    wrong = [call(FAR, "far"), call(FARTHER, "farther"), call(FARTHER, "route", route="other")]
    publish(body(usual), "ingest", other_account_id)
    publish(body(wrong), "ingest", other_account_id)
    first = publish(body([*usual[:20], *wrong[:2]]))
    second = publish(body([*usual[20:], *wrong]))
    if is_merged:
        compact_calls(account_id)
    assert delete_calls(engine, account_id, FARTHER.date()) == (2 if is_merged else 3)
    assert delete_calls(engine, account_id, FARTHER.date() + timedelta(days=1)) == 0
    with engine.connect() as connection:
        assert list_due(connection, now.date(), 10) == [account_id]
    compact_calls(account_id)
    names = [each["request_id"] for each in usual]
    assert stored_ids(engine, blobs, account_id) == sorted([*names, "far"])
    assert spent(engine, account_id)[::2] == (41, [(FAR.date(), "agent", 1)])
    assert delete_calls(engine, account_id) == 1
    compact_calls(account_id)
    with Session(engine) as session:
        days = sum_days(session, other_account_id, (date.min, now.date()))
    expected = sum(dict(days).values(), Decimal(0))
    # Recalculated imports bring nothing back, whatever release has read them.
    for audit_id in (first, second):
        with engine.begin() as connection:
            connection.execute(update(Audit).where(Audit.id == audit_id).values(status="queued"))
            if audit_id == second:
                connection.execute(text("UPDATE call_imports SET content_hash = ''"))
        run_audit(audit_id)
        assert spent(engine, account_id)[2] == []
        compact_calls(account_id)
        assert stored_ids(engine, blobs, account_id) == sorted(names)
        assert spent(engine, account_id) == (40, expected, [])
    with Session(engine) as session:
        assert not is_deleting(session, account_id)
        assert session.scalar(select(func.count()).where(DeletedCalls.applied_at.is_(None))) == 0
    assert spent(engine, other_account_id)[0] == 43  # another account keeps its calls
    # What arrives after the deletion is new.
    publish(body([call(FAR, "far")]))
    assert spent(engine, account_id)[2] == [(FAR.date(), "agent", 1)]


def test_deleted_calls_count_in_the_next_audit_no_more(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    now = utc_now()
    publish(body([call(now - timedelta(hours=1), "usual"), call(FAR, "far")]))
    assert future_calls(audit_calls(engine, account_id)) == 1
    assert delete_calls(engine, account_id) == 1
    report = audit_calls(engine, account_id)
    assert (report.audit.records, future_calls(report)) == (1, 0)


def test_a_deletion_that_is_repeated_adds_no_rows(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    publish(body([call(utc_now(), "usual"), call(FAR, "far")]))
    assert [delete_calls(engine, account_id) for _ in range(3)] == [1, 1, 1]
    assert delete_calls(engine, account_id, FAR.date()) == 1
    with Session(engine) as session:
        assert session.scalar(select(func.count(DeletedCalls.id))) == 1
    publish(body([call(FAR, "new")]))
    assert delete_calls(engine, account_id) == 2
    compact_calls(account_id)
    assert spent(engine, account_id)[::2] == (1, [])


def test_a_lost_blob_does_not_keep_a_deletion_busy(
    engine: Engine, blobs: BlobStore, account_id: str, publish: NewBatch
) -> None:
    around = [call(FAR + timedelta(days=day), f"far-{day}") for day in range(3)]
    publish(body(around))
    audit_calls(engine, account_id)  # merges them
    middle = FAR + timedelta(days=1)
    lost = publish(body([call(middle, "lost")]))
    with Session(engine) as session:
        blobs.delete(session.get_one(Audit, lost).frame_key or "")
        delete_future_calls(session, account_id, utc_now().date(), (middle.date(),) * 2)
        session.commit()
    compact_calls(account_id)  # it would write the other file again and again
    with Session(engine) as session:
        assert is_deleting(session, account_id)


def test_a_deletion_that_is_killed_midway_deletes_what_it_was_to_delete(
    engine: Engine,
    blobs: BlobStore,
    account_id: str,
    publish: NewBatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call of the same day that arrives in between is not part of it."""
    publish(body([call(utc_now(), "usual"), call(FAR, "far")]))
    delete_calls(engine, account_id)

    def die(*_: object, **__: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr("service.operations.call_store.compaction.finish_deletions", die)
        with pytest.raises(RuntimeError):
            compact_calls(account_id)
    assert stored_ids(engine, blobs, account_id) == ["usual"]
    with Session(engine) as session:
        assert is_deleting(session, account_id)
    publish(body([call(FAR, "new")]))
    compact_calls(account_id)
    with Session(engine) as session:
        assert not is_deleting(session, account_id)
    assert stored_ids(engine, blobs, account_id) == ["new", "usual"]
    assert spent(engine, account_id)[::2] == (2, [(FAR.date(), "agent", 1)])
