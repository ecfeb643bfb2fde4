"""An account's assumptions and prices apply to its audits, and to nobody else's."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from detectors.contract import Report
from service.config import Config
from service.core.blobs import BlobStore
from service.models import Audit, AuditSettings
from service.models.audits.audit_settings import (
    find_settings,
    list_typed_terms,
    rewrite_terms,
    save_assumptions,
    save_price_terms,
)
from service.models.base import utc_now
from service.operations.maintenance.housekeeping import Housekeeping
from service.operations.price_terms import list_excluded
from tests.worker.support.stored import document, load
from worker import run_audit

NewAudit = Callable[[], str]


def report_of(engine: Engine, audit_id: str) -> Report:
    return Report.from_json(document(engine, audit_id) or b"")


def choose(engine: Engine, audit_id: str, save: Callable[..., None], chosen: Any) -> None:
    account_id = load(engine, audit_id).account_id
    with Session(engine) as session:
        save(session, account_id, chosen)
        session.commit()


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


STORED = """\
# rates of the contract, confidential
[discounts]
openai = "1e-300000000"
anthropic = 0.5

[overrides.openai."gpt-5.4"]
input_mtok = "1e999999"
output_mtok = 1
"""
WRITTEN = "[discounts]\nanthropic = 0.5\n"


def test_prices_that_an_earlier_release_accepted_fail_no_audit_and_are_written_again(
    engine: Engine, new_audit: NewAudit, config: Config, blobs: BlobStore
) -> None:
    audit_id = new_audit()
    _store(engine, audit_id, STORED)
    run_audit(audit_id)
    prices = report_of(engine, audit_id).prices
    assert prices.negotiated == ("anthropic: 50% off",)
    assert [each.partition(":")[0] for each in prices.excluded] == ["line 3", "line 7"]
    settings = _keep_house(engine, config, blobs, audit_id)
    assert (settings.price_terms, settings.terms_excluded) == (WRITTEN, 2)
    changed_at = settings.changed_at
    assert _keep_house(engine, config, blobs, audit_id).changed_at == changed_at
    # A process of the earlier release may still store what was typed.
    _store(engine, audit_id, "# again\n" + WRITTEN)
    settings = _keep_house(engine, config, blobs, audit_id)
    assert (settings.price_terms, settings.terms_excluded) == (WRITTEN, 0)


def test_prices_of_which_nothing_can_be_read_stay_for_their_owner(
    engine: Engine, new_audit: NewAudit, config: Config, blobs: BlobStore
) -> None:
    """They were valid before there was a limit of characters, and removing all would lose them."""
    audit_id = new_audit()
    typed = "# ours\n[aliases.azure]\nm = ['openai', 'gpt-5.4']\n" + 100_000 * "#"
    _store(engine, audit_id, typed)
    settings = _keep_house(engine, config, blobs, audit_id)
    assert (settings.price_terms, settings.terms_excluded) == (typed, 0)
    with engine.connect() as connection:
        assert list_typed_terms(connection, 10) == []
        assert list_excluded(connection, typed) == ("the file has over 100,000 characters",)


def test_terms_that_change_while_they_are_written_again_stay(
    engine: Engine, new_audit: NewAudit
) -> None:
    audit_id = new_audit()
    account_id = load(engine, audit_id).account_id
    _store(engine, audit_id, STORED)
    with engine.begin() as connection:
        rewrite_terms(connection, account_id, "what was read before", WRITTEN, 0)
    with Session(engine) as session:
        assert find_settings(session, account_id).price_terms == STORED


def _store(engine: Engine, audit_id: str, typed: str) -> None:
    """Store terms as the previous release does."""
    with engine.begin() as connection:
        values = {"account_id": load(engine, audit_id).account_id, "price_terms": typed}
        statement = insert(AuditSettings).values({**values, "changed_at": utc_now()})
        own = statement.on_conflict_do_update(
            index_elements=["account_id"], set_={"price_terms": typed}
        )
        connection.execute(own)


def _keep_house(engine: Engine, config: Config, blobs: BlobStore, audit_id: str) -> AuditSettings:
    housekeeping = Housekeeping(config, blobs)
    with engine.connect() as connection:
        for _ in range(20):
            housekeeping.take_turn(connection)
    with Session(engine) as session:
        return session.get_one(AuditSettings, load(engine, audit_id).account_id)
