"""Publishes batches of one account."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from detectors.contract import UsageRecord
from detectors.formats import decode_batch, encode_records
from service.core.blobs import BlobStore
from service.models import Audit
from tests.service.support.scenes import add_account
from worker import run_audit


@pytest.fixture
def account_id(engine: Engine) -> str:
    with Session(engine) as session:
        account = add_account(session, email="worker@example.com")
        session.commit()
        return account.id


@pytest.fixture
def store(engine: Engine, blobs: BlobStore, account_id: str) -> Callable[..., str]:
    """Store a batch, or a file with the same records, to be audited; return the audit's ID."""

    def store(
        records: Sequence[UsageRecord], source: str = "ingest", owner: str = account_id
    ) -> str:
        encoded = encode_records(records)
        with Session(engine) as session:
            audit = Audit(account_id=owner, source=source, blob_key="", records=len(records))
            audit.content_hash = sha256(encoded).digest() if source == "upload" else None
            session.add(audit)
            session.flush()
            audit.blob_key = f"raw/{audit.id}.jsonl"
            blobs.put(audit.blob_key, encoded)
            session.commit()
            return audit.id

    return store


@pytest.fixture
def publish_records(store: Callable[..., str]) -> Callable[..., str]:
    """Store a batch or a file with records of any version and audit it; return the audit's ID."""

    def publish(*imported: Any) -> str:
        audit_id = store(*imported)
        run_audit(audit_id)
        return audit_id

    return publish


@pytest.fixture
def publish(publish_records: Callable[..., str]) -> Callable[..., str]:
    """Store a batch or a file and audit it; return the audit's ID."""
    return lambda body, *more: publish_records(decode_batch(body), *more)
