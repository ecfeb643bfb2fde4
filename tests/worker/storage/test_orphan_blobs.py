"""Old blobs that no audit names are deleted, and no other blob."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Engine, func, update

from service.config import Config
from service.core.blobs import BlobStore
from service.jobs.queues import AuditQueues
from service.models import Audit
from service.models.audits.blob_keys import pdf_key
from service.operations.maintenance import orphan_blobs
from service.operations.maintenance.orphan_blobs import OrphanBlobs
from service.operations.maintenance.sweeper import Sweeper
from worker import run_audit

ORPHAN = "raw/00000000000000000000000000000000.jsonl"
YOUNG = "raw/11111111111111111111111111111111.jsonl"
FRAME = "frames/00000000000000000000000000000000-1.parquet"


@pytest.fixture
def folder(config: Config) -> Path:
    return Path(urlsplit(config.storage_url).path)


def _put_old(folder: Path, blobs: BlobStore, key: str) -> None:
    blobs.put(key, b"{}\n")
    os.utime(folder / key, (0, 0))


def test_the_sweeper_removes_old_orphans_and_nothing_else(
    config: Config, engine: Engine, blobs: BlobStore, folder: Path, new_audit: Callable[[], str]
) -> None:
    audit_id, other_id = new_audit(), new_audit()
    run_audit(audit_id)
    named = [f"raw/{audit_id}.jsonl", f"frames/{audit_id}-1.parquet", f"raw/{other_id}.jsonl"]
    named.append(pdf_key(named[1]))
    blobs.put(named[-1], b"%PDF")
    for key in named:
        os.utime(folder / key, (0, 0))
    killed = f"frames/{audit_id}-7.parquet"  # of a start that was killed before it could publish
    replaced = f"pdf/{audit_id}-0.pdf"  # of a report before the last rerun
    orphans = (ORPHAN, FRAME, killed, replaced)
    for key in orphans:
        _put_old(folder, blobs, key)
    blobs.put(YOUNG, b"{}\n")

    with engine.connect() as connection:
        Sweeper(config, engine, AuditQueues.from_config(config), blobs).sweep(connection)

    assert not any(map(blobs.exists, orphans))
    assert all(map(blobs.exists, (*named, YOUNG)))


def test_the_blob_of_a_purged_audit_is_named_no_more(
    engine: Engine, blobs: BlobStore, folder: Path, new_audit: Callable[[], str]
) -> None:
    """As where a crash came between the note that it is purged and its end."""
    key = f"raw/{new_audit()}.jsonl"
    os.utime(folder / key, (0, 0))
    with engine.connect() as connection:
        with connection.begin():
            connection.execute(update(Audit).values(raw_purged_at=func.now()))
        OrphanBlobs(blobs).clear_page(connection)
    assert not blobs.exists(key)


def test_it_takes_one_page_at_a_time_and_then_rests(
    engine: Engine, blobs: BlobStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphan_blobs, "_PAGE", 2)
    keys = [f"raw/{number:032x}.jsonl" for number in range(5)]
    for key in keys:
        _put_old(folder, blobs, key)
    orphans = OrphanBlobs(blobs)
    left = []
    with engine.connect() as connection:
        for _ in range(4):
            orphans.clear_page(connection)
            left.append(sum(map(blobs.exists, keys)))
        _put_old(folder, blobs, ORPHAN)
        orphans.clear_page(connection)
    assert left == [3, 1, 0, 0]
    assert blobs.exists(ORPHAN)  # until it looks again, an hour later


def test_a_storage_that_fails_stops_no_sweep(config: Config, engine: Engine) -> None:
    nowhere = replace(config, storage_url="file:///proc/self/mem")
    orphans = OrphanBlobs(BlobStore.from_url(nowhere.storage_url))
    with engine.connect() as connection:
        orphans.clear_page(connection)


def test_a_storage_that_holds_nothing_yet_is_fine(engine: Engine, blobs: BlobStore) -> None:
    with engine.connect() as connection:
        OrphanBlobs(blobs).clear_page(connection)
