"""S3 has deadlines, says why it failed, and works again at once; a full disk isn't usable."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.core.blobs import BlobError, BlobNotFoundError, BlobStore, ScratchTooSmallError
from tests.worker.support.faulty_s3 import (
    BUSY,
    GONE,
    RESETS,
    SILENT,
    SLOW,
    WORKS,
    FaultyS3,
    running_s3,
)
from tests.worker.support.promises import sampled

KEY = "raw/0123456789abcdef.jsonl"
OPERATIONS: dict[str, Callable[[BlobStore], object]] = {
    "put": lambda blobs: blobs.put(KEY, b"one"),
    "put in parts": lambda blobs: blobs.put(KEY, b"one" * 4_000_000),
    "get": lambda blobs: blobs.get(KEY),
    "exists": lambda blobs: blobs.exists(KEY),
    "delete": lambda blobs: blobs.delete(KEY),
    "list": lambda blobs: list(blobs.list_old("raw", 0)),
}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyS3]:
    with running_s3() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def blobs() -> BlobStore:
    return BlobStore.from_url("s3://bucket/prefix")


def test_a_bucket_keeps_what_is_put_there(s3: FaultyS3, blobs: BlobStore) -> None:
    """Over HTTP, in one part and in many, at the edges of a part too."""
    for size in (0, 1, 4 * 1024**2, 4 * 1024**2 + 1, 20_000_001):
        content = os.urandom(size)
        blobs.put(KEY, content)
        assert blobs.get(KEY) == content
    assert list(blobs.list_old("raw", -60)) == [KEY]
    blobs.delete(KEY)
    with pytest.raises(BlobNotFoundError):
        blobs.get(KEY)


@pytest.mark.parametrize("operation", sampled(OPERATIONS, 3))
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param(SILENT, "S3 didn't respond in time", marks=pytest.mark.stress),
        (RESETS, "the connection to S3 broke"),
        (BUSY, "S3 responded with status 503"),
    ],
)
def test_a_broken_bucket_is_an_error_with_its_reason_within_ten_seconds(
    s3: FaultyS3, blobs: BlobStore, fault: str, reason: str, operation: str
) -> None:
    """By default, the next test has the silent one."""
    s3.state = fault
    began = time.monotonic()
    with pytest.raises(BlobError) as caught:
        OPERATIONS[operation](blobs)
    assert caught.value.strerror == reason
    assert time.monotonic() - began < 10


def test_a_silent_bucket_holds_nobody_and_works_again_at_once(
    s3: FaultyS3, blobs: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a tenth of the deadlines, so a tenth of the promised ten seconds."""
    monkeypatch.setattr(blobs, "_patience", 0.1)
    blobs.put(KEY, b"one")
    s3.state = SILENT
    for operation in OPERATIONS.values():
        began = time.monotonic()
        with pytest.raises(BlobError, match="didn't respond in time"):
            operation(blobs)
        assert time.monotonic() - began < 3  # a busy machine has its share
    s3.state = WORKS
    assert blobs.get(KEY) == b"one"


def test_a_slow_bucket_is_waited_for(s3: FaultyS3, blobs: BlobStore) -> None:
    s3.state = SLOW
    blobs.put(KEY, b"one")
    assert blobs.get(KEY) == b"one"


def test_an_endpoint_that_does_not_listen_has_a_reason(
    s3: FaultyS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = {
        "http://127.0.0.1:1": "the S3 endpoint refused the connection",
        "http://s3.invalid": "the host of the S3 endpoint can't be resolved",
    }
    for endpoint, reason in reasons.items():
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(BlobError) as caught:
            BlobStore.from_url("s3://bucket/prefix").exists(KEY)
        assert caught.value.strerror == reason
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.environment["AWS_ENDPOINT_URL"])
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(BlobError, match="set AWS_ALLOW_HTTP=true"):
        BlobStore.from_url("s3://bucket/prefix").exists(KEY)


def test_a_bucket_that_is_gone_is_no_missing_blob(s3: FaultyS3, blobs: BlobStore) -> None:
    s3.state = GONE
    for look in (lambda: blobs.get(KEY), blobs.is_usable):
        with pytest.raises(BlobError, match="the bucket doesn't exist") as caught:
            look()
        assert not isinstance(caught.value, BlobNotFoundError)


def test_copies_that_can_never_fit_are_no_outage(
    s3: FaultyS3, blobs: BlobStore, tmp_path: Path
) -> None:
    blobs.put("store/a.parquet", b"one")
    with pytest.raises(ScratchTooSmallError), blobs.local_files(["store/a.parquet"], 1 << 60):
        pass
    with blobs.local_files(["store/a.parquet"], 3) as paths:
        assert paths[0].read_bytes() == b"one"
