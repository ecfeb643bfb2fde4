"""Publishes batches of one account."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

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
def publish(engine: Engine, blobs: BlobStore, account_id: str) -> Callable[[bytes], str]:
    """Store a batch and audit it; return the audit's ID."""

    def publish(body: bytes) -> str:
        records = decode_batch(body)
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
