"""Where backups are stored: a folder or an S3 bucket, encrypted object by object.

An object is a file in the age format, written once. A blob's name is derived from its content, so
the same content is stored once, and a later backup never changes an object of an earlier one.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, Self

from service.core.blobs import BlobNotFoundError, BlobStore
from service.errors import ConfigError, ServiceError

MANIFESTS, DATABASES, BLOBS = ("manifests", "databases", "blobs")
# An `age-keygen` file has comments around the key.
_KEY: Final = re.compile(r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}\b")
# The variables of the backups' bucket that may differ from those of the service's own.
_S3_OPTIONS: Final = (
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
    *("aws_region", "aws_endpoint_url", "aws_allow_http"),
)
_CHUNK_BYTES: Final = 1024 * 1024
# Nobody waits for a backup, and its bucket may be far away: each part has a minute.
_PATIENCE: Final = 15.0
_AHEAD_SECONDS: Final = 86_400.0  # how far the storage's clock may be ahead


class BackupError(ServiceError):
    """A backup can't be made, read or restored; the message is one line for a person."""


class DamagedError(BackupError):
    """An object of a backup is missing, or isn't what was stored."""


class _UndecryptableError(BackupError):
    """The encryption failed, and not because of a file."""


class Content(NamedTuple):
    """The size in bytes and the SHA-256 of what was encrypted."""

    size: int
    sha256: str


class Writable(Protocol):
    """A file to write to."""

    def write(self, data: bytes, /) -> Any: ...


class Repository:
    """The objects of all backups of one installation."""

    def __init__(self, store: BlobStore, key: str) -> None:
        self._store = store
        self._key = key

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Return the repository at `BACKUP_URL`; raise `ConfigError` if it can't be used."""
        url = environment.get("BACKUP_URL", "").strip()
        if not url:
            raise ConfigError("BACKUP_URL is not set; set it to file:///folder or s3://bucket/name")
        if url.rstrip("/") == environment.get("STORAGE_URL", "").strip().rstrip("/"):
            raise ConfigError("BACKUP_URL must not be STORAGE_URL")
        return cls(open_store(url, environment), find_key(environment.get("BACKUP_KEY", "")))

    def write(
        self, name: str, source: BinaryIO, check: Callable[[], None] = lambda: None
    ) -> Content:
        """Encrypt and store what can be read from a file; return what it was.

        `check` raises if the source turned out to be incomplete; then nothing is stored.
        """
        import pyrage

        hashed = _Hashed(source)
        with self._store.writer(name) as file:
            target = _Kept(file)
            with _as_raised_in(hashed, target):
                pyrage.encrypt_io(hashed, target, [self._identity.to_public()])
            check()
        return hashed.content

    def read(self, name: str, target: Writable) -> Content:
        """Decrypt an object into a file; return what it was, or raise `DamagedError`."""
        import pyrage

        hashed = _Hashed(target)
        try:
            with self._store.open(name) as source, _as_raised_in(hashed):
                pyrage.decrypt_io(source, hashed, [self._identity])
        except BlobNotFoundError as error:
            raise DamagedError(f"{name} is missing") from error
        except _UndecryptableError as error:
            raise DamagedError(
                f"{name} can't be decrypted: it is damaged, or BACKUP_KEY is a different key"
            ) from error
        return hashed.content

    def name_of(self, sha256: str) -> str:
        """Return the name of a blob's object; without the key it doesn't tell the content."""
        return f"{BLOBS}/{hmac.new(self._naming_key, sha256.encode(), 'sha256').hexdigest()}.age"

    def list(self, folder: str, older_than_seconds: float | None = None) -> Iterator[str]:
        """Yield the names of a folder's objects, or those that are so old, in any order."""
        if older_than_seconds is None:
            return list_all(self._store, folder)
        return self._store.list_old(folder, older_than_seconds)

    def delete(self, name: str) -> None:
        self._store.delete(name)

    @cached_property
    def _identity(self) -> Any:
        from pyrage.x25519 import Identity

        return Identity.from_str(self._key)

    @cached_property
    def _naming_key(self) -> bytes:
        return hmac.new(self._key.encode(), b"tallystick backup names", "sha256").digest()


def open_store(url: str, environment: Mapping[str, str]) -> BlobStore:
    """Return the store at a URL, with the credentials for backups if there are any."""
    given = {name: environment.get(f"BACKUP_{name.upper()}", "") for name in _S3_OPTIONS}
    own = {name: value for name, value in given.items() if value}
    try:
        return BlobStore.from_url(url, s3_options=own, patience=_PATIENCE)
    except ValueError as error:
        raise ConfigError("BACKUP_URL must start with file:// or s3://") from error


def list_all(store: BlobStore, folder: str) -> Iterator[str]:
    """Yield the keys of all blobs of a folder, also of those that another clock has dated."""
    return store.list_old(folder, -_AHEAD_SECONDS)


def find_key(text: str) -> str:
    """Return the key in a setting or an age-keygen file; raise `ConfigError` without one."""
    keys = _KEY.findall(text)
    if len(keys) != 1:
        raise ConfigError(
            "BACKUP_KEY must be one key; make it with `tallystick backup new-key`"
            if text
            else "BACKUP_KEY is not set; make a key with `tallystick backup new-key`"
        )
    return str(keys[0])


def new_key() -> str:
    """Return a new random key, as `age-keygen` makes them."""
    from pyrage.x25519 import Identity

    return str(Identity.generate())


def hash_file(file: BinaryIO) -> Content:
    """Return the content of a file, and go back to its start."""
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK_BYTES):
        digest.update(chunk)
        size += len(chunk)
    file.seek(0)
    return Content(size, digest.hexdigest())


class _Kept:
    """A file that keeps the error that ended it.

    The encryption raises errors of its own in place of the file's.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self.error: BaseException | None = None

    def read(self, size: int = _CHUNK_BYTES) -> bytes:
        with self._error_kept():
            return self._pass(self._file.read(size))

    def write(self, data: bytes) -> int:
        with self._error_kept():
            self._file.write(self._pass(bytes(data)))
        return len(data)

    def flush(self) -> None:
        """Do nothing: the file is flushed where it was opened."""

    def _pass(self, data: bytes) -> bytes:
        return data

    @contextmanager
    def _error_kept(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.error = error
            raise


class _Hashed(_Kept):
    """A file that is hashed on its way."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self._digest, self._size = hashlib.sha256(), 0

    @property
    def content(self) -> Content:
        return Content(self._size, self._digest.hexdigest())

    def _pass(self, data: bytes) -> bytes:
        self._digest.update(data)
        self._size += len(data)
        return data


@contextmanager
def _as_raised_in(*files: _Kept) -> Iterator[None]:
    """Raise the files' own error; any other means that the object isn't what was stored."""
    import pyrage

    try:
        yield
    except (pyrage.DecryptError, pyrage.EncryptError, OSError) as error:
        for own in (file.error for file in files if file.error is not None):
            raise own from None
        raise _UndecryptableError from error
