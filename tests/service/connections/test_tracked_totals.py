"""Findings of provider totals among the findings of the account: new, covered, gone and back."""

from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from detectors.wording.actions import title
from service.models import AccountFinding, ReportedUsage
from service.models.calls.account_findings import FIXED, OPEN, RETURNED
from service.operations.findings.totals import drop_totals, track_totals
from service.operations.findings.tracking import AuditedFindings, track_findings
from tests.service.connections.reports import TODAY, Reports
from tests.service.support.spend import add_spend, spend_line

OLD = {"prompt_tokens": 1_000_000, "completion_tokens": 100_000}


@pytest.fixture
def openai(db_session: Session) -> Reports:
    reports = Reports(db_session, "openai")
    reports.add("gpt-4-0613", "key_1", **OLD)
    return reports


def _track(reports: Reports, days: int = 0) -> list[Any]:
    today = TODAY + timedelta(days=days)
    track_totals(reports.session.connection(), reports.account_id, "openai", today)
    reports.session.expire_all()
    mine = AccountFinding.account_id == reports.account_id
    return list(reports.session.scalars(select(AccountFinding).where(mine)))


def test_it_has_the_dollars_of_the_reports_and_says_so(openai: Reports) -> None:
    [found] = _track(openai)
    assert (found.monthly_usd, found.confidence, found.state) == (Decimal(332), "CONDITIONAL", OPEN)
    assert (found.route, found.suggested_model) == ("not sent: proj", "gpt-4.1")
    assert found.fix.endswith("From the totals of your provider's reports.")
    assert str(title(found)) == "Try gpt-4.1 instead of gpt-4-0613 on not sent: proj"
    [again] = _track(openai)
    assert again.id == found.id
    drop_totals(openai.session.connection(), openai.account_id, "openai")
    openai.session.expire_all()
    assert openai.session.scalars(select(AccountFinding)).all() == []


def test_what_calls_cover_by_now_is_left_to_their_findings(
    openai: Reports, db_session: Session
) -> None:
    _track(openai)
    none = {"cached_tokens": 0, "cache_write_tokens": 0}
    days = [TODAY - timedelta(days=number) for number in range(1, 11)]
    lines = [spend_line(day, "36", model="gpt-4-0613", **OLD, **none) for day in days]
    add_spend(db_session, openai.account_id, *lines)
    assert _track(openai) == []


def test_what_is_gone_for_two_weeks_is_fixed_and_may_return(openai: Reports) -> None:
    _track(openai)
    openai.session.execute(delete(ReportedUsage))
    [found] = _track(openai, days=13)
    assert (found.monthly_usd, found.state) == (Decimal(0), OPEN)
    [found] = _track(openai, days=15)
    assert found.state == FIXED
    openai.add("gpt-4-0613", "key_1", **OLD)
    [found] = _track(openai, days=16)
    assert found.state == RETURNED


def test_an_audit_of_calls_leaves_it_alone(openai: Reports) -> None:
    _track(openai)
    audit = SimpleNamespace(last_call="2026-12-24T00:00:00Z", window_start=None, metered_calls=9)
    report: Any = SimpleNamespace(audit=audit, findings=[])
    audited = AuditedFindings(openai.account_id, "audit", report, [])
    track_findings(openai.session.connection(), audited)
    openai.session.expire_all()
    [found] = openai.session.scalars(select(AccountFinding)).all()
    assert (found.monthly_usd, found.state) == (Decimal(332), OPEN)
