"""Findings of an account that tests write straight into their table."""

from decimal import Decimal
from typing import Any
from uuid import uuid4

from sqlalchemy.orm import Session

from service.models.base import utc_now
from service.models.calls.account_findings import AccountFinding

_VALUES = {
    "detector": "d2_missed_caching",
    "kind": "uncached_prefix",
    "route": "chat",
    "provider": "openai",
    "model": "gpt-5.5",
    "audit_id": "audit",
    "finding_id": "d2-001",
    "severity": "high",
    "confidence": "ESTIMATED",
    "fix": "Mark the prefix as cacheable.",
    "calls": 10,
    "monthly_usd": Decimal(50),
    "observed_usd": Decimal(40),
}


def add_account_finding(session: Session, account_id: str, **more: Any) -> AccountFinding:
    """Add a finding, first and last seen now unless it says otherwise."""
    now = utc_now()
    own = {"account_id": account_id, "identity": uuid4().bytes, "first_seen": now, "last_seen": now}
    finding = AccountFinding(**{**_VALUES, **own, **more})
    session.add(finding)
    session.commit()
    return finding
