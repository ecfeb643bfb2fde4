"""An account's assumptions and prices apply to its audits, and to nobody else's."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.orm import Session

from detectors.contract import Report
from service.models import Account, Audit
from service.models.audits.audit_settings import save_assumptions, save_price_terms
from tests.worker.support.stored import document, load
from worker import run_audit

NewAudit = Callable[[], str]


@pytest.fixture
def other_account_id(engine: Engine) -> Iterator[str]:
    with Session(engine) as session:
        account = Account(email="other@example.com")
        session.add(account)
        session.commit()
        yield account.id
        session.delete(account)
        session.commit()


def report_of(engine: Engine, audit_id: str) -> Report:
    return Report.from_json(document(engine, audit_id) or b"")


def choose(engine: Engine, audit_id: str, save: Callable[..., None], chosen: Any) -> None:
    account_id = load(engine, audit_id).account_id
    with Session(engine) as session:
        save(session, account_id, chosen)
        session.commit()


def test_an_audit_uses_the_assumptions_of_its_account(engine: Engine, new_audit: NewAudit) -> None:
    audit_id = new_audit()
    choose(engine, audit_id, save_assumptions, {"d2_cache_seconds": 60})
    run_audit(audit_id)
    assert report_of(engine, audit_id).thresholds.d2_cache_seconds == 60


def test_audits_of_several_accounts_that_are_claimed_together_use_their_own(
    engine: Engine, new_audit: NewAudit, other_account_id: str
) -> None:
    audit_ids = [new_audit() for _ in range(24)]
    with Session(engine) as session:
        moved = update(Audit).where(Audit.id.in_(audit_ids[12:]))
        session.execute(moved.values(account_id=other_account_id))
        session.commit()
    choose(engine, audit_ids[0], save_assumptions, {"d2_cache_seconds": 60})
    run_audit(audit_ids[0])
    done = [each for each in audit_ids if load(engine, each).status == "done"]
    seconds = {each: report_of(engine, each).thresholds.d2_cache_seconds for each in done}
    assert set(seconds.values()) == {60, 300}
    assert seconds == {each: 60 if each in audit_ids[:12] else 300 for each in done}


def test_an_audit_uses_the_prices_of_its_account(engine: Engine, new_audit: NewAudit) -> None:
    plain, discounted = new_audit(), new_audit()
    run_audit(plain)
    before = report_of(engine, plain)
    providers = {each.provider for each in before.spend_by_model}
    terms = "\n".join(["[discounts]", *(f'"{name}" = 0.5' for name in sorted(providers))])
    choose(engine, discounted, save_price_terms, terms)
    run_audit(discounted)
    after = report_of(engine, discounted)
    assert len(after.prices.negotiated) == len(providers)
    assert after.audit.total_spend_usd == pytest.approx(before.audit.total_spend_usd / 2)
