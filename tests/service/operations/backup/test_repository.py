"""Where backups are stored, which key opens them, which are kept and what is deleted."""

import io
import math
import resource
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from service.core.blobs import S3Blobs
from service.errors import ConfigError
from service.operations.backup.manifests import (
    FORMAT,
    Keep,
    Manifest,
    StoredBlob,
    choose_kept,
    database_name,
    list_backups,
    list_ids,
    manifest_name,
    new_id,
    prune_backups,
    read_manifest,
    time_of,
    write_manifest,
)
from service.operations.backup.repository import (
    BLOBS,
    DATABASES,
    MANIFESTS,
    Content,
    DamagedError,
    Repository,
    new_key,
    open_store,
)
from service.operations.exporter.server import BackupMetrics
from tests.cases import each_case

NEWEST = datetime(2026, 11, 23, 3, tzinfo=UTC)
KEEP = Keep(days=7, weeks=5, months=12)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    settings = {"BACKUP_URL": tmp_path.as_uri(), "BACKUP_KEY": new_key()}
    return Repository.from_environment(settings)


def _id(hours_ago: float) -> str:
    return f"{NEWEST - timedelta(hours=hours_ago):%Y%m%dT%H%M%S%fZ}-0000aaaa"


def test_the_last_of_each_day_week_and_month_is_kept() -> None:
    every_six_hours = [_id(6 * number) for number in range(4 * 500)]
    kept = sorted(map(time_of, choose_kept(every_six_hours, KEEP)), reverse=True)
    days = [time.date() for time in kept]
    assert kept[0] == NEWEST
    assert days[:7] == [date(2026, 11, 23 - number) for number in range(7)]
    # Its weeks end on Sundays, its months on their last days; one of each is among the others.
    assert days[7:10] == [date(2026, 11, 15), date(2026, 11, 8), date(2026, 11, 1)]
    ends = days[10:]
    assert len(ends) == 11
    assert all((day + timedelta(days=1)).day == 1 for day in ends)
    assert ends[0] == date(2026, 10, 31)
    assert all(time.hour == 21 for time in kept[1:])
    assert all(later > earlier for later, earlier in pairwise(kept))


def test_the_newest_is_kept_and_backups_of_one_second_have_an_order() -> None:
    assert choose_kept([], KEEP) == set()
    few = [_id(24 * 40 * number) for number in range(6)]
    assert choose_kept(few, KEEP) == set(few)
    assert choose_kept(few, Keep(1, 1, 1)) == {few[0]}
    # Backups of one second are in their order.
    moments = [NEWEST + timedelta(microseconds=number) for number in range(20)]
    ids = [new_id(moment) for moment in moments]
    assert [time_of(backup_id) for backup_id in list_ids(map(manifest_name, ids))] == moments[::-1]


def _manifest(backup_id: str, *contents: Content) -> Manifest:
    blobs = [StoredBlob(f"raw/{number}.jsonl", *each) for number, each in enumerate(contents)]
    return Manifest(
        format=FORMAT,
        id=backup_id,
        created_at=time_of(backup_id),
        finished_at=time_of(backup_id),
        release="0.1.0",
        revision="0001",
        dump_version=18,
        server_version=18,
        audits=0,
        database=Content(0, ""),
        blobs=blobs,
        missing=[],
        added_bytes=0,
        secret_key_id="",
        encryption_key_id="",
    )


def _store(repository: Repository, content: bytes) -> Content:
    stored = repository.write(f"{BLOBS}/new.age", io.BytesIO(content))
    repository.delete(f"{BLOBS}/new.age")
    repository.write(repository.name_of(stored.sha256), io.BytesIO(content))
    return stored


def _all_names(repository: Repository) -> set[str]:
    return {name for folder in (MANIFESTS, DATABASES, BLOBS) for name in repository.list(folder)}


def test_pruning_deletes_what_no_kept_backup_uses(repository: Repository) -> None:
    old, shared, new = (_store(repository, content) for content in (b"old", b"both", b"new"))
    left = _store(repository, b"left by an interrupted backup")
    for backup_id, contents in ((_id(48), (old, shared)), (_id(0), (shared, new))):
        repository.write(database_name(backup_id), io.BytesIO(b"dump"))
        write_manifest(repository, _manifest(backup_id, *contents))
    before = _all_names(repository)
    keep = Keep(1, 1, 1)
    # What is younger than a day may be of use to the next backup; a manifest alone goes at once.
    assert prune_backups(repository, keep) == 1
    assert before - _all_names(repository) == {manifest_name(_id(48))}
    assert prune_backups(repository, keep, grace_seconds=-60) == 0
    assert _all_names(repository) == {
        manifest_name(_id(0)),
        database_name(_id(0)),
        repository.name_of(shared.sha256),
        repository.name_of(new.sha256),
    }
    assert repository.name_of(left.sha256) in before


def test_nothing_is_pruned_while_a_kept_backup_cannot_be_read(
    repository: Repository, tmp_path: Path
) -> None:
    for hours in (0, 48):
        write_manifest(repository, _manifest(_id(hours)))
    (tmp_path / manifest_name(_id(0))).write_bytes(b"damaged")
    before = _all_names(repository)
    with pytest.raises(DamagedError):
        prune_backups(repository, Keep(1, 1, 1), grace_seconds=-60)
    assert _all_names(repository) == before


def test_a_manifest_under_another_name_is_refused(repository: Repository, tmp_path: Path) -> None:
    write_manifest(repository, _manifest(_id(48)))
    (tmp_path / manifest_name(_id(48))).rename(tmp_path / manifest_name(_id(0)))
    assert list_backups(repository) == [_id(0)]
    with pytest.raises(DamagedError, match="another backup's"):
        read_manifest(repository, _id(0))


class _Failing(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError("the disk failed")

    def write(self, data: object, /) -> int:
        raise OSError("the disk is full")


def test_an_error_of_a_file_is_raised_as_it_was_and_stores_nothing(repository: Repository) -> None:
    with pytest.raises(OSError, match="the disk failed"):
        repository.write(f"{BLOBS}/x.age", _Failing())

    def check() -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        repository.write(f"{BLOBS}/x.age", io.BytesIO(b"half"), check=check)
    assert _all_names(repository) == set()
    repository.write(f"{BLOBS}/x.age", io.BytesIO(b"whole"))
    with pytest.raises(OSError, match="the disk is full"):
        repository.read(f"{BLOBS}/x.age", _Failing())


def test_a_full_disk_is_not_called_damage(repository: Repository) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            repository.write(f"{BLOBS}/x.age", io.BytesIO(bytes(1_000_000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert _all_names(repository) == set()


@each_case(
    ("settings", "reason"),
    [
        ({}, "BACKUP_URL is not set"),
        ({"BACKUP_URL": "ftp://host"}, "BACKUP_URL must start with"),
        ({"BACKUP_URL": "file:///blobs/"}, "BACKUP_URL must not be STORAGE_URL"),
        ({"BACKUP_URL": "file:///b"}, "BACKUP_KEY is not set"),
        ({"BACKUP_URL": "file:///b", "BACKUP_KEY": "canary"}, "BACKUP_KEY must be one key"),
        (
            {"BACKUP_URL": "file:///b", "BACKUP_KEY": f"{new_key()} {new_key()}"},
            "BACKUP_KEY must be one key",
        ),
    ],
)
def test_a_wrong_setting_is_named_and_not_repeated(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        Repository.from_environment({"STORAGE_URL": "file:///blobs", **settings})
    assert "canary" not in str(caught.value)


def test_a_file_of_age_keygen_is_a_key(tmp_path: Path) -> None:
    key = new_key()
    text = f"# created: 2026-11-23T03:00:00Z\n# public key: age1example\n{key}\n"
    stored = Repository.from_environment({"BACKUP_URL": tmp_path.as_uri(), "BACKUP_KEY": key})
    stored.write(f"{BLOBS}/x.age", io.BytesIO(b"content"))
    target = io.BytesIO()
    again = Repository.from_environment({"BACKUP_URL": tmp_path.as_uri(), "BACKUP_KEY": text})
    again.read(f"{BLOBS}/x.age", target)
    assert target.getvalue() == b"content"


def test_a_bucket_may_have_credentials_of_its_own() -> None:
    names = ("access_key_id", "secret_access_key", "region")
    own = {f"BACKUP_AWS_{name.upper()}": f"{name} of backups" for name in names}
    store = open_store("s3://bucket/prefix", {"AWS_ACCESS_KEY_ID": "of the blobs", **own})
    assert isinstance(store, S3Blobs)
    config = cast(dict[str, str], store._store.config)  # type: ignore[union-attr]
    assert [config[name] for name in names] == [f"{name} of backups" for name in names]


def test_the_age_of_the_newest_backup_is_exported(repository: Repository, tmp_path: Path) -> None:
    def age() -> list[float]:
        found = BackupMetrics(tmp_path.as_uri()).collect()
        return [sample.value for metric in found for sample in metric.samples]

    assert age() == [math.inf]
    for hours_ago in (30, 5):
        time = datetime.now(UTC) - timedelta(hours=hours_ago)
        write_manifest(repository, _manifest(new_id(time)))
    assert 5 * 3_600 <= age()[0] < 6 * 3_600
    (tmp_path / MANIFESTS).rename(tmp_path / "elsewhere")
    (tmp_path / MANIFESTS).write_text("no folder")
    assert age() == []
