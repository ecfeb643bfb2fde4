"""Blobs on files, and the same guarantees of the S3 store with a store in memory."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from obstore.store import MemoryStore

from service.core.blobs import BlobError, BlobNotFoundError, BlobStore, S3Blobs
from tests.cases import each_case

KEY = "raw/0123456789abcdef.jsonl"


@pytest.fixture(params=["file", "s3"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    if request.param == "file":
        return BlobStore.from_url((tmp_path / "blobs").as_uri())
    store = BlobStore.from_url("s3://bucket/prefix")
    assert isinstance(store, S3Blobs)
    store.__dict__["_store"] = MemoryStore()
    return store


def test_what_is_put_is_got_and_replaced(blobs: BlobStore) -> None:
    blobs.put(KEY, b"one")
    assert blobs.get(KEY) == b"one"
    assert blobs.exists(KEY)
    # An empty blob is a blob.
    blobs.put(KEY, b"")
    assert blobs.get(KEY) == b""
    # A second put replaces the first.
    blobs.put(KEY, b"one")
    blobs.put(KEY, b"two" * 1_000_000)
    assert blobs.get(KEY) == b"two" * 1_000_000


def test_blobs_are_written_and_read_in_pieces(blobs: BlobStore) -> None:
    blobs.put(KEY, b"before")
    with blobs.writer(KEY) as file:
        file.write(b"one")
        file.write(b"two" * 4_000_000)
        assert blobs.get(KEY) == b"before"
    assert blobs.get(KEY) == b"one" + b"two" * 4_000_000
    # A writer whose block fails leaves what was there.
    blobs.put(KEY, b"before")
    with pytest.raises(TypeError), blobs.writer(KEY) as file:
        file.writelines([b"one" * 1_000_000, None])  # type: ignore[list-item]
    assert blobs.get(KEY) == b"before"
    assert list(blobs.list_old("raw", -60)) == [KEY]


def test_it_can_be_read_in_pieces(blobs: BlobStore) -> None:
    blobs.put(KEY, b"0123456789")
    with blobs.open(KEY) as file:
        assert [file.read(4), file.read(4), file.read(4)] == [b"0123", b"4567", b"89"]


def test_a_missing_blob_is_a_file_not_found_and_may_be_deleted(blobs: BlobStore) -> None:
    assert not blobs.exists(KEY)
    with pytest.raises(BlobNotFoundError) as caught:
        blobs.get(KEY)
    assert isinstance(caught.value, FileNotFoundError)
    # Delete may come twice.
    blobs.put(KEY, b"one")
    blobs.delete(KEY)
    blobs.delete(KEY)
    assert not blobs.exists(KEY)


def test_a_process_writes_nothing_where_its_disk_was_mounted(tmp_path: Path) -> None:
    """The disk would hide it once it is mounted again, and an accepted batch with it."""
    folder, elsewhere = tmp_path / "blobs", tmp_path / "elsewhere"
    blobs = BlobStore.from_url(folder.as_uri())
    blobs.put(KEY, b"one")
    folder.rename(elsewhere)
    folder.mkdir()
    with pytest.raises(BlobError, match="has lost its disk"):
        blobs.put(KEY, b"two")
    with pytest.raises(BlobError, match="has lost its disk"):
        blobs.is_usable()
    assert list(folder.iterdir()) == []
    folder.rmdir()
    elsewhere.rename(folder)
    assert blobs.get(KEY) == b"one"
    assert blobs.is_usable()


def test_a_look_at_the_storage_writes_few_bytes(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 * 1_024, hard))
    try:
        assert BlobStore.from_url(tmp_path.as_uri()).is_usable()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_it_says_whether_it_is_usable(blobs: BlobStore) -> None:
    assert blobs.is_usable()


@each_case(
    "key",
    [
        "",
        "raw",
        "raw/",
        "/etc/passwd",
        "raw/../x.jsonl",
        "../raw/x.jsonl",
        "raw/a b.jsonl",
        "raw/x.jsonl\n",
        "raw/x/y.jsonl",
        "RAW/x.jsonl",
        "raw/.put-x.jsonl",
        "raw/é.jsonl",
    ],
)
def test_a_key_of_any_other_shape_is_rejected(blobs: BlobStore, key: str) -> None:
    for use in (blobs.open, blobs.delete, blobs.exists):
        with pytest.raises(ValueError, match="a blob key"):
            use(key)
    with pytest.raises(ValueError, match="a blob key"), blobs.writer(key):
        pass
    with pytest.raises(ValueError, match="a blob key"):
        blobs.put(key, b"")


def test_an_address_of_another_kind_is_rejected() -> None:
    with pytest.raises(ValueError, match="file:// or s3://"):
        BlobStore.from_url("ftp://host/folder")


def test_a_folder_with_odd_characters_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "a folder with % and é"
    BlobStore.from_url(folder.as_uri()).put(KEY, b"one")
    assert (folder / KEY).read_bytes() == b"one"


def test_the_disk_is_busy_before_a_large_file_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advised: list[tuple[int, int]] = []

    def advise(_descriptor: int, offset: int, length: int, _advice: int) -> None:
        advised.append((offset, length))
        raise OSError("not on this file system")

    monkeypatch.setattr("service.core.durable_files._ADVISE", advise)
    monkeypatch.setattr("service.core.durable_files.EARLY_BYTES", 25_000)
    blobs = BlobStore.from_url(tmp_path.as_uri())
    with blobs.writer(KEY) as file:
        for letter in (b"a", b"b", b"c", b"d", b"e"):
            file.write(letter * 10_000)
            file.flush()  # Python 3.14 gathers more before it writes
        assert advised == [(0, 30_000)]
    assert blobs.get(KEY) == b"".join(letter * 10_000 for letter in (b"a", b"b", b"c", b"d", b"e"))


def test_a_file_is_for_its_user_alone(tmp_path: Path) -> None:
    BlobStore.from_url(tmp_path.as_uri()).put(KEY, b"one")
    assert (tmp_path / KEY).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / KEY).parent.stat().st_mode & 0o777 == 0o700


def test_files_have_a_name_at_once_where_the_system_has_none_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.core.durable_files._UNNAMED", None)
    blobs = BlobStore.from_url(tmp_path.as_uri())
    with blobs.writer(KEY) as file:
        file.write(b"one")
        assert len(list((tmp_path / "raw").iterdir())) == 1
    assert _files(tmp_path) == [tmp_path / KEY]
    with pytest.raises(ZeroDivisionError), blobs.writer(KEY):
        raise ZeroDivisionError
    assert _files(tmp_path) == [tmp_path / KEY]


KILLED = """
import os, signal, sys
from service.core.blobs import BlobStore
with BlobStore.from_url(sys.argv[1]).writer("raw/x.jsonl") as file:
    file.write(b"x" * 5_000_000)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are Linux's")
def test_a_writer_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, tmp_path.as_uri()]
    killed = subprocess.run(command, check=False, cwd=Path(__file__).parents[3])
    assert killed.returncode == -signal.SIGKILL
    assert _files(tmp_path) == []


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_put_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    blobs = BlobStore.from_url(tmp_path.as_uri())
    with pytest.raises(OSError, match="full"):
        blobs.put(KEY, b"one")
    assert _files(tmp_path) == []


def test_leftovers_of_a_killed_put_are_removed_when_old(tmp_path: Path) -> None:
    blobs = BlobStore.from_url(tmp_path.as_uri())
    blobs.put(KEY, b"one")
    old, young = tmp_path / "raw/.put-old", tmp_path / "raw/.put-young"
    for path in (old, young):
        path.touch()
    os.utime(old, (0, 0))
    assert blobs.delete_unfinished(3_600) == 1
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == [
        ".put-young",
        "0123456789abcdef.jsonl",
    ]


def test_it_lists_the_old_blobs_of_one_folder(blobs: BlobStore) -> None:
    assert list(blobs.list_old("raw", 0)) == []
    blobs.put(KEY, b"one")
    blobs.put("frames/other.parquet", b"two")
    assert list(blobs.list_old("raw", -60)) == [KEY]
    assert list(blobs.list_old("raw", 60)) == []


def test_it_lists_nothing_that_is_no_blob_of_ours(tmp_path: Path) -> None:
    store = MemoryStore()
    store.put("raw/a folder/x.jsonl", b"one")
    s3 = BlobStore.from_url("s3://bucket/prefix")
    s3.__dict__["_store"] = store
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/.put-0").touch()
    for blobs in (s3, BlobStore.from_url(tmp_path.as_uri())):
        assert list(blobs.list_old("raw", -60)) == []


def test_blobs_are_files_for_readers_that_need_them(blobs: BlobStore) -> None:
    contents = {"store/a.parquet": b"one", "store/b.parquet": b"two"}
    for key, content in contents.items():
        blobs.put(key, content)
    with blobs.local_files(list(contents)) as paths:
        assert [path.read_bytes() for path in paths] == list(contents.values())
    with pytest.raises(FileNotFoundError), blobs.local_files(["store/c.parquet"]) as paths:
        paths[0].read_bytes()


def test_a_cluster_reads_blobs_at_their_addresses(tmp_path: Path) -> None:
    files = BlobStore.from_url((tmp_path / "a folder").as_uri())
    files.put("store/a.parquet", b"one")
    (url,) = files.urls(["store/a.parquet"])
    assert Path(unquote(urlsplit(url).path)).read_bytes() == b"one"
    s3 = BlobStore.from_url("s3://bucket/prefix/")
    assert s3.urls(["store/a.parquet"]) == ["s3a://bucket/prefix/store/a.parquet"]
