"""Stored spend follows the account's prices, and audits of earlier releases join the call store."""

from collections.abc import Callable
from decimal import Decimal
from random import Random

import pytest
from sqlalchemy import Engine, delete, func, select, update
from sqlalchemy.orm import Session

from service.core.blobs import BlobStore
from service.models import CallFile, CallImport, SpendRow
from service.models.audits.audit_settings import save_price_terms
from service.models.calls.missing_imports import list_incomplete_accounts
from service.models.calls.stored_prices import list_outdated_accounts
from service.operations.call_store import backfill
from service.operations.price_book import VERSION, find_version
from tests.worker.calls.test_account_audits import audit_account
from tests.worker.calls.test_call_store import (
    batch,
    compact,
    compact_and_kill,
    cost_of,
    live,
    spend,
    stored_ids,
)
from tests.worker.support.promises import Note, at_a_fortieth, sampled, scaled
from tests.worker.support.stored import load
from worker import compact_calls

NewBatch = Callable[[bytes], str]
HALF = '[discounts]\n"openai" = 0.5\n'


def choose(engine: Engine, account_id: str, terms: str) -> None:
    with Session(engine) as session:
        save_price_terms(session, account_id, terms)
        session.commit()


def outdated(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(list_outdated_accounts(connection, find_version(connection), 10))


def list_usd(engine: Engine) -> Decimal:
    with Session(engine) as session:
        return session.scalar(select(func.sum(SpendRow.list_usd))) or Decimal(0)


@pytest.mark.parametrize("is_merged", sampled([True, False], 2))
def test_spend_follows_the_prices_of_the_account(
    engine: Engine, account_id: str, publish: NewBatch, is_merged: bool
) -> None:
    publish(batch(60))
    if is_merged:
        compact(engine, account_id)
    before = spend(engine, account_id)
    assert outdated(engine) == []
    choose(engine, account_id, HALF)
    assert outdated(engine) == [account_id]
    compact_calls(account_id)
    calls, cost = spend(engine, account_id)
    audited = audit_account(engine, account_id)
    assert (calls, cost) == (60, audited.total_spend_usd)
    assert cost == pytest.approx(before[1] / 2)
    assert list_usd(engine) == before[1]
    assert outdated(engine) == []
    choose(engine, account_id, "")
    compact_calls(account_id)
    assert spend(engine, account_id) == before


def test_files_are_not_read_if_other_prices_have_changed(
    engine: Engine, blobs: BlobStore, account_id: str, publish: NewBatch
) -> None:
    publish(batch(60))
    compact(engine, account_id)
    before = spend(engine, account_id)
    for file in live(engine, account_id):
        blobs.delete(file.blob_key)
    with engine.begin() as connection:
        connection.execute(update(CallFile).values(priced_with=f"{VERSION}+2026-01-01|"))
    choose(engine, account_id, '[discounts]\n"anthropic" = 0.5\n')
    assert outdated(engine) == [account_id]
    compact_calls(account_id)
    assert outdated(engine) == []
    assert spend(engine, account_id) == before


def test_a_lost_file_keeps_its_prices_and_is_not_tried_each_minute(
    engine: Engine, blobs: BlobStore, account_id: str, publish: NewBatch
) -> None:
    publish(batch(60))
    publish(batch(60, 1))
    before = spend(engine, account_id)
    files = live(engine, account_id)
    assert len(files) == 2
    blobs.delete(files[0].blob_key)
    for terms in (HALF, ""):
        choose(engine, account_id, terms)
        assert outdated(engine) == [account_id]
        compact_calls(account_id)
        assert outdated(engine) == []
        assert (spend(engine, account_id) == before) == (not terms)


def test_files_of_earlier_releases_are_summed_once(
    engine: Engine, account_id: str, publish: NewBatch
) -> None:
    publish(batch(60))
    compact(engine, account_id)
    with engine.begin() as connection:
        connection.execute(update(CallFile).values(priced_with=None, rates=None))
        connection.execute(update(SpendRow).values(cost_usd=0))
    compact_calls(account_id)
    assert spend(engine, account_id) == (60, cost_of(batch(60)))
    assert all(file.rates for file in live(engine, account_id))


# Audits of releases without a call store


def forget(engine: Engine, *audit_ids: str) -> None:
    """Remove what the publication of these audits has added to the call store."""
    names = [f"{audit_id}-1" for audit_id in audit_ids]
    with engine.begin() as connection:
        connection.execute(delete(CallFile).where(CallFile.import_id.in_(names)))
        connection.execute(delete(CallImport).where(CallImport.audit_id.in_(audit_ids)))


def incomplete(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(list_incomplete_accounts(connection, 10))


def test_audits_without_files_in_the_call_store_are_added(
    engine: Engine,
    blobs: BlobStore,
    account_id: str,
    publish: NewBatch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backfill, "AT_ONCE", 2)
    bodies = [batch(20, seed) for seed in range(4)]
    audit_ids = [publish(body) for body in bodies]
    whole = spend(engine, account_id)
    forget(engine, *audit_ids[:3])
    assert spend(engine, account_id)[0] == 20
    assert incomplete(engine) == [account_id]
    compact_calls(account_id)
    assert spend(engine, account_id)[0] == 60  # two of the three at once
    compact_calls(account_id)
    assert spend(engine, account_id) == whole == (80, cost_of(*bodies))
    assert len(stored_ids(engine, blobs, account_id)) == 80
    assert incomplete(engine) == []


def test_a_missing_frame_is_skipped_for_good(
    engine: Engine, blobs: BlobStore, account_id: str, publish: NewBatch
) -> None:
    audit_id = publish(batch(20))
    forget(engine, audit_id)
    blobs.delete(load(engine, audit_id).frame_key or "")
    compact_calls(account_id)
    assert live(engine, account_id) == []
    assert incomplete(engine) == []


@at_a_fortieth
def test_adding_and_repricing_killed_at_any_moment_count_each_call_once(
    share: float, engine: Engine, account_id: str, publish: NewBatch, note: Note
) -> None:
    kills, losses, random = scaled(40, share), 0, Random(27)
    bodies = [batch(20, seed) for seed in range(6 if share == 1 else 2)]
    audit_ids = [publish(body) for body in bodies]
    full = cost_of(*bodies)
    for kill in range(kills):
        if not kill % 2:
            with engine.begin() as connection:
                connection.execute(delete(CallFile).where(CallFile.account_id == account_id))
            forget(engine, *audit_ids)
        choose(engine, account_id, HALF if kill % 2 else "")
        compact_and_kill(account_id, random.uniform(0, 0.8))
        compact_calls(account_id)
        expected = full / 2 if kill % 2 else full
        calls, cost = spend(engine, account_id)
        losses += calls != 20 * len(bodies) or abs(cost - expected) > Decimal("0.000001")
    note("43 adding and repricing killed at any moment count each call once", kills, losses)
