"""Raw blobs without an audit go when they are old, and no other blob ever does."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Engine

from service import stray_blobs
from service.blobs import BlobStore
from service.config import Config
from service.jobs.queues import AuditQueues
from service.stray_blobs import StrayBlobs
from service.sweeper import Sweeper

STRAY = "raw/00000000000000000000000000000000.jsonl"
YOUNG = "raw/11111111111111111111111111111111.jsonl"
FRAME = "frames/00000000000000000000000000000000-1.parquet"


@pytest.fixture
def folder(config: Config) -> Path:
    return Path(urlsplit(config.storage_url).path)


def _put_old(folder: Path, blobs: BlobStore, key: str) -> None:
    blobs.put(key, b"{}\n")
    os.utime(folder / key, (0, 0))


def test_the_sweeper_removes_old_strays_and_nothing_else(
    config: Config, engine: Engine, blobs: BlobStore, folder: Path, new_audit: Callable[[], str]
) -> None:
    named = f"raw/{new_audit()}.jsonl"
    os.utime(folder / named, (0, 0))
    for key in (STRAY, FRAME):
        _put_old(folder, blobs, key)
    blobs.put(YOUNG, b"{}\n")

    with engine.connect() as connection:
        Sweeper(config, engine, AuditQueues.from_config(config), blobs).sweep(connection)

    assert not blobs.exists(STRAY)
    assert all(blobs.exists(key) for key in (named, YOUNG, FRAME))


def test_it_takes_one_page_at_a_time_and_then_rests(
    engine: Engine, blobs: BlobStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stray_blobs, "_PAGE", 2)
    keys = [f"raw/{number:032x}.jsonl" for number in range(5)]
    for key in keys:
        _put_old(folder, blobs, key)
    strays = StrayBlobs(blobs)
    left = []
    with engine.connect() as connection:
        for _ in range(4):
            strays.clear_page(connection)
            left.append(sum(map(blobs.exists, keys)))
        _put_old(folder, blobs, STRAY)
        strays.clear_page(connection)
    assert left == [3, 1, 0, 0]
    assert blobs.exists(STRAY)  # until it looks again, an hour later


def test_a_storage_that_fails_stops_no_sweep(config: Config, engine: Engine) -> None:
    nowhere = replace(config, storage_url="file:///proc/self/mem")
    strays = StrayBlobs(BlobStore.from_url(nowhere.storage_url))
    with engine.connect() as connection:
        strays.clear_page(connection)


def test_a_storage_that_holds_nothing_yet_is_fine(engine: Engine, blobs: BlobStore) -> None:
    with engine.connect() as connection:
        StrayBlobs(blobs).clear_page(connection)
