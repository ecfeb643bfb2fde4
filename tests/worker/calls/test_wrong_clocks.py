"""Calls of wrong clocks harm nothing but themselves: those of 2000, of 2034, and of 2099."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from detectors.contract import Report
from service.models import AccountFinding, Audit, Budget, FindingChange
from service.models.base import utc_now
from service.models.calls.account_audits import queue_account_audit
from service.models.calls.spend_by_day import sum_days
from service.operations.findings.periods import measure_all_realized
from service.operations.findings.realized import find_newest_day
from service.operations.watching.budgets import list_states
from service.operations.watching.month import days_needed, look_at_month
from tests.worker.support.promises import sampled
from tests.worker.support.stored import document
from worker import run_audit

NewBatch = Callable[[bytes], str]
CALLS = 1_000
DAYS = 14


def usual_calls(now: datetime) -> list[dict[str, Any]]:
    """Return 1,000 calls of 14 days until an hour ago; every tenth is repeated within seconds."""
    begin, step = now - timedelta(days=DAYS), timedelta(days=DAYS, hours=-1) / (CALLS // 5 * 4)
    moments = []
    for number in range(CALLS // 5 * 4):
        again = (0, 4, 9) if number % 8 == 0 else (0,)
        moments += [begin + number * step + timedelta(seconds=seconds) for seconds in again]
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


def audit_account(engine: Engine, account_id: str) -> Report:
    with engine.begin() as connection:
        audit_id = queue_account_audit(connection, account_id, 30)
    assert audit_id is not None
    run_audit(audit_id)
    stored = document(engine, audit_id)
    assert stored is not None
    return Report.from_json(stored)
