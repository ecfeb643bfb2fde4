"""Publishes batches of one account."""

from collections.abc import Callable, Sequence

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from detectors.contract import UsageRecord
from detectors.formats import decode_batch, encode_records
from service.core.blobs import BlobStore
from service.models import Account, Audit
from worker import run_audit


@pytest.fixture
def account_id(engine: Engine) -> str:
    with Session(engine) as session:
        account = Account(email="worker@example.com")
        session.add(account)
        session.commit()
        return account.id


@pytest.fixture
def publish(publish_records: Callable[[Sequence[UsageRecord]], str]) -> Callable[[bytes], str]:
    """Store a batch and audit it; return the audit's ID."""
    return lambda body: publish_records(decode_batch(body))


@pytest.fixture
def publish_records(
    engine: Engine, blobs: BlobStore, account_id: str
) -> Callable[[Sequence[UsageRecord]], str]:
    """The same, with records of any version."""

    def publish(records: Sequence[UsageRecord]) -> str:
        with Session(engine) as session:
            audit = Audit(account_id=account_id, source="ingest", blob_key="", records=len(records))
            session.add(audit)
            session.flush()
            audit.blob_key = f"raw/{audit.id}.jsonl"
            blobs.put(audit.blob_key, encode_records(records))
            session.commit()
            audit_id = audit.id
        run_audit(audit_id)
        return audit_id

    return publish
