"""Store the bytes of audits: files in a folder, or S3. A stored blob survives a crash.

Keys are made from the service's own IDs, never from anything a caller sends.
"""

import errno
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
from tempfile import SpooledTemporaryFile, TemporaryDirectory, TemporaryFile, gettempdir
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from service.config.checks import is_on
from service.core.durable_files import give_name, open_new, sync_folder
from service.core.telemetry.counters import timed_blob

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_KEY: Final = re.compile(r"[a-z]+/[A-Za-z0-9_-]+\.[a-z0-9]+")
_TEMPORARY_PREFIX: Final = ".put-"
_IN_MEMORY_BYTES: Final = 16 * 1024 * 1024
_S3_PARTS_AT_ONCE: Final = 2  # each of some 5 MB in memory
# A larger blob is read in parts, so that each request of S3 can have a deadline.
_S3_PART_BYTES: Final = 4 * 1024 * 1024
_S3_CONNECT_SECONDS: Final = 2.0
# A request is begun again only within this time, so that the last one ends within 10 seconds.
_S3_REQUEST_SECONDS: Final = 4.0
_S3_RETRY_SECONDS: Final = 4.2
_S3_RETRIES: Final = 3
_S3_PAUSE: Final = timedelta(seconds=0.1)
# What a disk must have room for to be usable, and what a probe writes, since there may be a quota.
_ROOM_BYTES: Final = 1024 * 1024
_PROBE_BYTES: Final = 4 * 1024
_NO_BUCKET: Final = "NoSuchBucket"
# How the S3 library words what failed, and how we do: its own texts contain addresses.
_S3_REASONS: Final[Mapping[str, str]] = {
    r"BadScheme": "AWS_ENDPOINT_URL starts with http://; set AWS_ALLOW_HTTP=true",
    r"error response (\d{3})|status: (\d{3})": "S3 responded with status {}",
    r"dns error|failed to lookup": "the host of the S3 endpoint can't be resolved",
    r"Connection refused": "the S3 endpoint refused the connection",
    r"InvalidCertificate|certificate": "the certificate of the S3 endpoint is invalid",
    r"[Tt]imed ?[Oo]ut|kind: Timeout": "S3 didn't respond in time",
    r"reset by peer|IncompleteMessage|Broken pipe|body error": "the connection to S3 broke",
}


class BlobError(OSError):
    """The storage failed. `strerror` says how, without an address; the cause has the details."""

    def __init__(self, reason: str, number: int = errno.EIO) -> None:
        super().__init__(number, reason)


class BlobNotFoundError(BlobError, FileNotFoundError):
    """No blob has this key; `is_empty` if the storage has none at all, as an unmounted disk."""

    def __init__(self, key: str, *, is_empty: bool = False) -> None:
        OSError.__init__(self, errno.ENOENT, os.strerror(errno.ENOENT), key)
        self.is_empty = is_empty


def is_scratch_full() -> bool:
    """Check whether the disk of temporary files is full now, without those of an ended job."""
    return shutil.disk_usage(gettempdir()).free < _ROOM_BYTES


class ScratchTooSmallError(Exception):
    """Copies of blobs would not fit on the disk of temporary files, even if it were empty."""


def local_folder(storage_url: str) -> Path | None:
    """Return the folder of a storage on this machine's disks; None for a bucket."""
    parts = urlsplit(storage_url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


class BlobStore(ABC):
    """Blobs by key. Every method raises an `OSError` if the storage fails."""

    @staticmethod
    def from_url(
        storage_url: str, s3_options: Mapping[str, str] | None = None, patience: float = 1.0
    ) -> "BlobStore":
        """Return the store at `file:///folder` or `s3://bucket/prefix`, without connecting.

        `s3_options` replace the AWS_ variables of the same names, in lower case. `patience`
        multiplies the deadlines, which are short because people wait for the service's requests.
        """
        if folder := local_folder(storage_url):
            return FileBlobs(folder)
        if urlsplit(storage_url).scheme == "s3":
            return S3Blobs(storage_url, s3_options, patience)
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
        """Check whether the storage is writable and has room; it may also raise an `OSError`."""

    @abstractmethod
    def list_old(self, folder: str, older_than_seconds: float) -> Iterator[str]:
        """Yield the keys of a folder's blobs that are at least this old, in any order."""

    @contextmanager
    def local_files(self, keys: Sequence[str], size: int = 0) -> Iterator[list[Path]]:
        """Yield paths of copies of the blobs, for readers that need files.

        Raise `ScratchTooSmallError` if that many bytes can never fit, and `OSError` if they don't
        fit now.
        """
        _check_scratch(size)
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
        self._was_used = False

    @contextmanager
    def writer(self, key: str) -> Iterator[BinaryIO]:
        path = self._path(key)
        temporary = path.with_name(f"{_TEMPORARY_PREFIX}{uuid4().hex}")
        try:
            with self._create(temporary) as file:
                yield file
                # Only now, because the sender of a file may take its time.
                with timed_blob("write"):
                    file.flush()
                    os.fsync(file.fileno())
                    give_name(file, temporary)
                    temporary.rename(path)
                    sync_folder(path.parent)
            self._was_used = True
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def put(self, key: str, data: bytes) -> None:
        with self._own_errors(key):
            super().put(key, data)

    def open(self, key: str) -> BinaryIO:
        with timed_blob("open"), self._own_errors(key):
            return self._path(key).open("rb")

    @contextmanager
    def local_files(self, keys: Sequence[str], size: int = 0) -> Iterator[list[Path]]:
        if keys and self._is_empty():
            raise BlobNotFoundError(keys[0], is_empty=True)
        yield [self._path(key) for key in keys]

    def urls(self, keys: Sequence[str]) -> list[str]:
        return [self._path(key).absolute().as_uri() for key in keys]

    def delete(self, key: str) -> None:
        with timed_blob("delete"), self._own_errors(key):
            self._path(key).unlink(missing_ok=True)

    def exists(self, key: str) -> bool:
        return self._path(key).is_file()

    def is_usable(self) -> bool:
        self._check_disk()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{_TEMPORARY_PREFIX}{uuid4().hex}"
        try:
            with open_new(path) as file:
                file.write(bytes(_PROBE_BYTES))
            if shutil.disk_usage(self._folder).free < _ROOM_BYTES:
                raise BlobError(os.strerror(errno.ENOSPC), errno.ENOSPC)
        finally:
            path.unlink(missing_ok=True)
        return True

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
            self._check_disk()
            temporary.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_folder(temporary.parent.parent)
            return open_new(temporary)

    def _check_disk(self) -> None:
        """Refuse to write where a disk was mounted, which will hide it from all readers."""
        if self._was_used and self._is_empty():
            raise BlobError("the storage folder has lost its disk", errno.ENODEV)

    def _is_empty(self) -> bool:
        """Check whether there is no folder of blobs; once made, we delete none."""
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            return not any(entry.is_dir() for entry in entries)
        return True

    @contextmanager
    def _own_errors(self, key: str) -> Iterator[None]:
        """Raise the system's errors as our own."""
        try:
            yield
        except BlobError:
            raise
        except FileNotFoundError as error:
            raise BlobNotFoundError(key, is_empty=self._is_empty()) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise BlobError(reason, error.errno or errno.EIO) from error


class S3Blobs(BlobStore):
    """Store blobs as S3 objects; the standard AWS_ variables hold endpoint and credentials."""

    def __init__(
        self, storage_url: str, options: Mapping[str, str] | None = None, patience: float = 1.0
    ) -> None:
        self._url = storage_url
        self._options = dict(options or {})
        self._patience = patience

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
            found = self._store.get(_checked(key))
            size = found.meta["size"]
            # Large blobs go to a temporary file.
            if size > _IN_MEMORY_BYTES:
                _check_scratch(size)
            file = stack.enter_context(SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES))
            if size <= _S3_PART_BYTES:
                file.write(memoryview(found.bytes()))
            else:
                for start in range(0, size, _S3_PART_BYTES):
                    end = min(start + _S3_PART_BYTES, size)
                    file.write(memoryview(self._store.get_range(key, start=start, end=end)))
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
        with suppress(BlobNotFoundError):  # unlike `exists`, it notices if there is no bucket
            self.open("health/probe.txt").close()
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
        # The library ignores its variable AWS_ALLOW_HTTP if it is given options for the client.
        http = options.pop("aws_allow_http", os.environ.get("AWS_ALLOW_HTTP", ""))
        request = timedelta(seconds=_S3_REQUEST_SECONDS * self._patience)
        client = {
            "allow_http": is_on(http),
            "connect_timeout": timedelta(seconds=_S3_CONNECT_SECONDS * self._patience),
            "timeout": request,
            "read_timeout": request,
        }
        retries = {
            "max_retries": _S3_RETRIES,
            "retry_timeout": timedelta(seconds=_S3_RETRY_SECONDS * self._patience),
            "backoff": {"init_backoff": _S3_PAUSE, "max_backoff": 2 * _S3_PAUSE, "base": 2},
        }
        arguments = cast(Any, {"client_options": client, "retry_config": retries})
        return from_url(self._url, config=cast(Any, options), **arguments)


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
        if _NO_BUCKET in str(error):
            raise BlobError("the bucket doesn't exist") from error
        raise BlobNotFoundError(key) from error
    except BaseError as error:
        # In words without an address, which the library's own have.
        reason = f"S3 failed with {type(error).__name__}"
        for pattern, known in _S3_REASONS.items():
            if found := re.search(pattern, str(error)):
                reason = known.format(found[found.lastindex or 0])
                break
        raise BlobError(reason) from error


def _check_scratch(size: int) -> None:
    """Check that the disk of temporary files has room, before an audit fills it."""
    disk = shutil.disk_usage(gettempdir())
    if size > disk.total:
        raise ScratchTooSmallError
    if size > disk.free:
        raise BlobError("too little space for temporary files", errno.ENOSPC)
