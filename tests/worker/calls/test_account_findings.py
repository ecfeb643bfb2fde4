"""Findings of an account over time: found, fixed, returned, dismissed, and what a fix saved."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine, Row, column, insert, select, update
from sqlalchemy.orm import Session

from service.models import AccountFinding, Audit, FindingChange, FindingRecord, FindingSaving
from service.operations.findings.periods import RealizedSavings, measure_all_realized
from service.operations.findings.realized import Realized, measure_realized
from tests.worker.calls.test_account_audits import audit_account

NewBatch = Callable[[bytes], str]
START = datetime(2026, 9, 1, tzinfo=UTC)
PROMPT = 4_000  # long enough for a cache, $10 per million tokens
ANSWER = 900
DAILY = 24


def day_of_calls(day: int, *, wasted: bool, calls: int = DAILY, route: str = "agent") -> list[Any]:
    """Return a day of calls; wasted ones send the same prompt twice again within seconds."""
    found = []
    for number in range(calls):
        at = START + timedelta(days=day, hours=number * 24 / calls)
        again = (0, 5, 10) if wasted else (0,)
        for seconds in again:
            moment = at + timedelta(seconds=seconds)
            found.append(
                {
                    "ts": moment.isoformat(),
                    "provider": "openai",
                    "model": "gpt-4.1",
                    "prompt_tokens": PROMPT,
                    "completion_tokens": ANSWER,
                    "prefix_hash": f"{day:04x}{number:04x}" + "0" * 56,
                    "tag": route,
                    "request_id": f"{route}-{day}-{number}-{seconds}",
                }
            )
    return found


def body(days: Sequence[list[Any]]) -> bytes:
    return msgspec.json.encode({"records": [call for day in days for call in day]})


def duplicates(engine: Engine) -> AccountFinding:
    """Return the one finding of duplicate calls."""
    query = select(AccountFinding).where(AccountFinding.detector == "d4_duplicate_calls")
    with Session(engine, expire_on_commit=False) as session:
        return session.scalars(query).one()


def changes(engine: Engine) -> list[tuple[str, str, str]]:
    query = (
        select(FindingChange.before, FindingChange.after, FindingChange.changed_by)
        .join(AccountFinding, AccountFinding.id == FindingChange.account_finding_id)
        .where(AccountFinding.detector == "d4_duplicate_calls")
        .order_by(FindingChange.id)
    )
    with Session(engine) as session:
        return [(row.before, row.after, row.changed_by) for row in session.execute(query)]


def realized(engine: Engine, account_id: str) -> Realized | None:
    with engine.connect() as connection:
        finding_id = duplicates(engine).id
        return measure_realized(connection, account_id, [finding_id]).get(finding_id)


def stored_days(engine: Engine, finding_id: str) -> dict[date, Row[Any]]:
    """Return the days of a finding, with the transaction that has written each."""
    columns: tuple[Any, ...] = (FindingSaving.day, FindingSaving.calls, column("xmin"))
    query = select(*columns).where(FindingSaving.account_finding_id == finding_id)
    with engine.connect() as connection:
        return {row.day: row for row in connection.execute(query)}


def test_a_finding_keeps_its_place_over_audits_and_is_silent_while_it_is_dismissed(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    publish(body([day_of_calls(day, wasted=True) for day in range(3)]))
    audit_account(engine, account_id, days=7)  # other windows leave the findings as they are
    with Session(engine) as session:
        assert session.scalars(select(AccountFinding)).all() == []
    audit_account(engine, account_id)
    first = duplicates(engine)
    assert (first.state, first.route, first.model) == ("open", "agent", "gpt-4.1")
    publish(body([day_of_calls(3, wasted=True)]))
    audit_account(engine, account_id)
    second = duplicates(engine)
    assert second.id == first.id
    assert second.audit_id != first.audit_id
    assert second.first_seen == first.first_seen
    assert second.last_seen > first.last_seen
    with Session(engine) as session:
        own = FindingRecord.account_finding_id == first.id
        history = session.scalars(select(FindingRecord).where(own)).all()
        is_own = FindingSaving.account_finding_id == first.id
        savings = session.scalars(select(FindingSaving.saving_usd).where(is_own)).all()
    assert len(history) == 2
    assert len(savings) == 4
    assert sum(savings) == second.observed_usd

    def dismiss(until: datetime | None) -> None:
        with engine.begin() as connection:
            values = {"state": "dismissed", "silent_until": until}
            connection.execute(update(AccountFinding).values(values))

    dismiss(None)
    publish(body([day_of_calls(4, wasted=True)]))
    audit_account(engine, account_id)
    assert duplicates(engine).state == "dismissed"
    dismiss(START + timedelta(days=5))
    publish(body([day_of_calls(6, wasted=True)]))
    audit_account(engine, account_id)
    assert duplicates(engine).state == "open"


def test_an_audit_writes_the_days_that_have_changed(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    publish(body([day_of_calls(day, wasted=True) for day in range(4)]))
    audit_account(engine, account_id)
    own, days = duplicates(engine).id, [START.date() + timedelta(days=day) for day in range(9)]
    with engine.begin() as connection:
        for day in days[:2]:
            connection.execute(
                update(FindingSaving).where(FindingSaving.day == day).values(calls=1)
            )
        gone = {"account_finding_id": own, "day": days[8], "calls": 1, "saving_usd": 1}
        connection.execute(insert(FindingSaving).values(gone))
    before = stored_days(engine, own)
    audit_account(engine, account_id)
    after = stored_days(engine, own)
    assert {day: row.calls for day, row in after.items()} == dict.fromkeys(days[:4], 2 * DAILY)
    assert [day for day in days[:4] if after[day].xmin != before[day].xmin] == days[:2]


def test_a_finding_is_fixed_by_its_absence_and_returns(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    publish(body([day_of_calls(day, wasted=day < 3) for day in range(15)]))
    audit_account(engine, account_id)
    assert duplicates(engine).state == "open"
    publish(body([day_of_calls(day, wasted=False) for day in (16, 17)]))
    audit_account(engine, account_id)
    fixed = duplicates(engine)
    assert (fixed.state, fixed.fixed_at) == ("fixed", fixed.last_seen)
    publish(body([day_of_calls(18, wasted=True)]))
    audit_account(engine, account_id)
    assert duplicates(engine).state == "returned"
    assert changes(engine) == [("open", "fixed", ""), ("fixed", "returned", "")]


def test_without_calls_of_its_route_a_finding_stays_open(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    other = [day_of_calls(day, wasted=False, route="other") for day in range(20)]
    publish(body([*(day_of_calls(day, wasted=True) for day in range(3)), *other]))
    audit_account(engine, account_id)
    assert duplicates(engine).state == "open"


@pytest.mark.parametrize(
    ("volume", "is_fixed"),
    [
        (DAILY // 2, True),
        *(
            pytest.param(*of, marks=pytest.mark.stress)
            for of in ((DAILY // 2, False), (DAILY, True))
        ),
    ],
)
def test_realized_savings_are_those_of_the_fix_and_not_of_the_volume(
    volume: int, is_fixed: bool, engine: Engine, account_id: str, publish: NewBatch
) -> None:
    """Waste on 14 days; then 14 days with or without it, at the same or half the volume."""
    publish(body([day_of_calls(day, wasted=True) for day in range(15)]))
    publish(body([day_of_calls(day, wasted=not is_fixed, calls=volume) for day in range(15, 29)]))
    audit_account(engine, account_id)
    fix = START + timedelta(days=15) - timedelta(seconds=1)
    with engine.begin() as connection:
        connection.execute(update(AccountFinding).values(state="fixed", fixed_at=fix))
    saved = realized(engine, account_id)
    assert saved is not None
    # Two of three calls before the fix were repeats, of $2 and $8 per million tokens.
    repeat = Decimal(PROMPT * 2 + ANSWER * 8) / 1_000_000
    planted = repeat * 2 / 3 * volume * 14 if is_fixed else Decimal(0)
    assert abs(saved.total_usd - planted) <= planted * Decimal("0.02") + Decimal("1e-6")
    assert abs(saved.monthly_usd - saved.total_usd / 14 * 30) < Decimal("1e-6")
    _compare_with_all(engine, account_id, START.date() + timedelta(days=28))


def _compare_with_all(engine: Engine, account_id: str, newest: date) -> None:
    """All findings measured at once save what each of them does, in any two periods."""
    with Session(engine) as session:
        rows = session.scalars(select(AccountFinding)).all()
        ids = [row.id for row in rows]
        each = measure_realized(session.connection(), account_id, ids).values()
        split = START.date() + timedelta(days=21)
        periods = ((START.date(), split), (split + timedelta(days=1), newest))
        saved = measure_all_realized(session, account_id, {}, periods, newest)
        nothing = measure_all_realized(session, account_id, {"route": "other"}, periods, newest)
    assert (saved.findings, saved.measured) == (len(rows), len(each))
    close = Decimal("1e-6")
    assert abs(saved.total_usd - sum(one.total_usd for one in each)) < close
    assert abs(saved.monthly_usd - sum(one.monthly_usd for one in each)) < close
    assert abs(saved.month_usd + saved.previous_usd - saved.total_usd) < close
    assert nothing == RealizedSavings(findings=0, measured=0)


def test_monthly_dollars_are_projected_from_seven_days(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    for days, is_monthly in ((range(6), False), (range(6, 7), True)):
        publish(body([day_of_calls(day, wasted=True) for day in days]))
        audit_account(engine, account_id)
        found = duplicates(engine)
        with Session(engine) as session:
            audit = session.get_one(Audit, found.audit_id)
        assert (found.is_monthly, audit.projection != "none") == (is_monthly, is_monthly)
        assert (found.monthly_usd == found.observed_usd) == (not is_monthly)
        assert (audit.projected_spend_usd == audit.total_spend_usd) == (not is_monthly)
