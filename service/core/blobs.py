"""Store the bytes of audits: files in a folder, or S3. A stored blob survives a crash.

Keys are made from the service's own IDs, never from anything a caller sends.
"""

import os
import re
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from tempfile import SpooledTemporaryFile, TemporaryDirectory, TemporaryFile
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from service.core.durable_files import give_name, open_new, sync_folder
from service.core.telemetry.counters import timed_blob

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_KEY: Final = re.compile(r"[a-z]+/[A-Za-z0-9_-]+\.[a-z0-9]+")
_TEMPORARY_PREFIX: Final = ".put-"
_IN_MEMORY_BYTES: Final = 16 * 1024 * 1024
_S3_PARTS_AT_ONCE: Final = 2  # each of some 5 MB in memory


class BlobError(OSError):
    """The storage failed; the cause has the details."""


class BlobNotFoundError(BlobError, FileNotFoundError):
    """No blob has this key."""


class BlobStore(ABC):
    """Blobs by key. Every method raises an `OSError` if the storage fails."""

    @staticmethod
    def from_url(storage_url: str, s3_options: Mapping[str, str] | None = None) -> "BlobStore":
        """Return the store at `file:///folder` or `s3://bucket/prefix`, without connecting.

        `s3_options` replace the AWS_ variables of the same names, in lower case.
        """
        parts = urlsplit(storage_url)
        if parts.scheme == "file":
            return FileBlobs(Path(unquote(parts.path)))
        if parts.scheme == "s3":
            return S3Blobs(storage_url, s3_options)
        raise ValueError("a storage URL must start with file:// or s3://")

    @abstractmethod
    def writer(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Open a file that becomes the blob when the block ends, or is discarded if it raises.

        Once the block has ended, the blob survives a crash of the process or machine.
        """

    def put(self, key: str, data: bytes) -> None:
        """Store the bytes, as durably as `writer`."""
        with self.writer(key) as file:
            file.write(data)

    @abstractmethod
    def open(self, key: str) -> BinaryIO:
        """Open the blob for reading; raise `BlobNotFoundError` if there is none."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete the blob, if it exists."""

    @abstractmethod
    def exists(self, key: str) -> bool: ...

    @abstractmethod
    def is_usable(self) -> bool:
        """Check whether the storage is writable."""

    @abstractmethod
    def list_old(self, folder: str, older_than_seconds: float) -> Iterator[str]:
        """Yield the keys of a folder's blobs that are at least this old, in any order."""

    @contextmanager
    def local_files(self, keys: Sequence[str]) -> Iterator[list[Path]]:
        """Yield paths of copies of the blobs, for readers that need files."""
        with TemporaryDirectory(prefix="tallystick-") as folder:
            paths = [Path(folder, str(number)) for number in range(len(keys))]
            for key, path in zip(keys, paths, strict=True):
                with self.open(key) as blob, path.open("wb") as file:
                    shutil.copyfileobj(blob, file)
            yield paths

    @abstractmethod
    def urls(self, keys: Sequence[str]) -> list[str]:
        """Return the blobs' addresses, for readers on a cluster that has the same storage."""

    def get(self, key: str) -> bytes:
        """Return the blob's bytes; raise `BlobNotFoundError` if there is none."""
        with self.open(key) as file:
            return file.read()

    def delete_unfinished(self, older_than_seconds: float) -> int:
        """Delete files of interrupted writes; return their number."""
        return 0


class FileBlobs(BlobStore):
    """Store each blob as a file that only this user can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def writer(self, key: str) -> Iterator[BinaryIO]:
        path = self._path(key)
        temporary = path.with_name(f"{_TEMPORARY_PREFIX}{uuid4().hex}")
        try:
            with self._create(temporary) as file:
                yield file
                # Only now, because the sender of a file may take its time.
                with timed_blob("write"):
                    _keep(file, temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def open(self, key: str) -> BinaryIO:
        try:
            with timed_blob("open"):
                return self._path(key).open("rb")
        except FileNotFoundError as error:
            raise BlobNotFoundError(key) from error

    @contextmanager
    def local_files(self, keys: Sequence[str]) -> Iterator[list[Path]]:
        yield [self._path(key) for key in keys]

    def urls(self, keys: Sequence[str]) -> list[str]:
        return [self._path(key).absolute().as_uri() for key in keys]

    def delete(self, key: str) -> None:
        with timed_blob("delete"):
            self._path(key).unlink(missing_ok=True)

    def exists(self, key: str) -> bool:
        return self._path(key).is_file()

    def is_usable(self) -> bool:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.access(self._folder, os.W_OK | os.X_OK)

    def list_old(self, folder: str, older_than_seconds: float) -> Iterator[str]:
        oldest = time.time() - older_than_seconds
        with suppress(FileNotFoundError), os.scandir(self._folder / folder) as entries:
            for entry in entries:
                key = f"{folder}/{entry.name}"
                # A blob may be deleted or renamed at the same time.
                with suppress(FileNotFoundError):
                    is_old = entry.stat().st_mtime < oldest
                    if is_old and _KEY.fullmatch(key):
                        yield key

    def delete_unfinished(self, older_than_seconds: float) -> int:
        oldest, deleted = time.time() - older_than_seconds, 0
        for path in self._folder.glob(f"*/{_TEMPORARY_PREFIX}*"):
            # A write may finish and rename its file at the same time.
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()
                    deleted += 1
        return deleted

    def _path(self, key: str) -> Path:
        return self._folder / _checked(key)

    def _create(self, temporary: Path) -> BinaryIO:
        """Create a file, without a name if the system can: then SIGKILL leaves nothing behind."""
        try:
            return open_new(temporary)
        except FileNotFoundError:
            self._make_folder(temporary.parent)
            return open_new(temporary)

    def _make_folder(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_folder(folder.parent)


class S3Blobs(BlobStore):
    """Store blobs as S3 objects; the standard AWS_ variables hold endpoint and credentials."""

    def __init__(self, storage_url: str, options: Mapping[str, str] | None = None) -> None:
        self._url = storage_url
        self._options = dict(options or {})

    @contextmanager
    def writer(self, key: str) -> Iterator[BinaryIO]:
        with TemporaryFile() as file:
            yield cast(BinaryIO, file)
            file.seek(0)
            with timed_blob("write"), _as_blob_errors(key):
                self._store.put(_checked(key), file, max_concurrency=_S3_PARTS_AT_ONCE)

    def put(self, key: str, data: bytes) -> None:
        with timed_blob("write"), _as_blob_errors(key):
            self._store.put(_checked(key), data)

    def open(self, key: str) -> BinaryIO:
        with timed_blob("open"), ExitStack() as stack, _as_blob_errors(key):
            chunks = self._store.get(_checked(key))
            # Large blobs go to a temporary file.
            file = stack.enter_context(SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES))
            for chunk in chunks:
                file.write(memoryview(chunk))
            file.seek(0)
            stack.pop_all()  # the caller closes it
        return cast(BinaryIO, file)

    def delete(self, key: str) -> None:
        try:
            with timed_blob("delete"), _as_blob_errors(key):
                self._store.delete(_checked(key))
        except BlobNotFoundError:
            return

    def exists(self, key: str) -> bool:
        try:
            with _as_blob_errors(key):
                self._store.head(_checked(key))
        except BlobNotFoundError:
            return False
        return True

    def urls(self, keys: Sequence[str]) -> list[str]:
        # The scheme of Hadoop's S3 library.
        prefix = self._url.replace("s3://", "s3a://", 1).rstrip("/")
        return [f"{prefix}/{_checked(key)}" for key in keys]

    def is_usable(self) -> bool:
        self.exists("health/probe.txt")
        return True

    def list_old(self, folder: str, older_than_seconds: float) -> Iterator[str]:
        oldest = datetime.now(UTC) - timedelta(seconds=older_than_seconds)
        with _as_blob_errors(folder):
            for page in self._store.list(folder):
                old = (blob["path"] for blob in page if blob["last_modified"] < oldest)
                yield from filter(_KEY.fullmatch, old)

    @cached_property
    def _store(self) -> "ObjectStore":
        # Created on first use and never before a fork, because its threads wouldn't survive.
        from obstore.store import from_url

        options = dict(self._options)
        # The library wants this one apart; without either, it reads AWS_ALLOW_HTTP.
        http = options.pop("aws_allow_http", "").lower() == "true"
        client = {"client_options": {"allow_http": True}} if http else {}
        return from_url(self._url, config=cast(Any, options), **cast(Any, client))


def _keep(file: BinaryIO, temporary: Path, path: Path) -> None:
    """Give a file its name, durably: the new name lasts only after its folder is synced."""
    file.flush()
    os.fsync(file.fileno())
    give_name(file, temporary)
    temporary.rename(path)
    sync_folder(path.parent)


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError("a blob key must look like folder/name.ending")
    return key


@contextmanager
def _as_blob_errors(key: str) -> Iterator[None]:
    """Raise the S3 library's errors as our own."""
    from obstore.exceptions import BaseError, NotFoundError

    try:
        yield
    except (FileNotFoundError, NotFoundError) as error:
        raise BlobNotFoundError(key) from error
    except BaseError as error:
        raise BlobError(key) from error
