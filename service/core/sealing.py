"""Columns that are encrypted in the database, for values that we must be able to read again.

A sealed value names its key, so old and new keys work side by side until every value is sealed
again. AES-256-GCM also detects a changed value, and one that was moved from another column.
"""

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence
from typing import Any, Final, Self, cast

from sqlalchemy import Dialect, Engine, String
from sqlalchemy.types import TypeDecorator

from service.config import Config
from service.core.logs import get_logger
from service.errors import SealingError

NOT_SEALED: Final = "not sealed"
_MARK: Final = "sealed:1:"
_NONCE_BYTES: Final = 12
_log = get_logger(__name__)


class Sealer:
    """Seal with the first key; open with any."""

    def __init__(self, keys: Sequence[str]) -> None:
        # Derived, so that a key of another purpose isn't used directly.
        purpose = b"tallystick sealed columns"
        derived = [hmac.new(key.encode(), purpose, hashlib.sha256).digest() for key in keys]
        self._keys = {_key_id(key): key for key in reversed(derived)}
        self.key_id = _key_id(derived[0])
        self.prefix = f"{_MARK}{self.key_id}:"

    @classmethod
    def from_config(cls, config: Config) -> Self:
        return cls(config.encryption_keys)

    def has_key(self, key_id: str) -> bool:
        return key_id in self._keys or key_id == NOT_SEALED

    def seal(self, column: str, text: str) -> str:
        nonce = os.urandom(_NONCE_BYTES)
        sealed = _cipher(self._keys[self.key_id]).encrypt(nonce, text.encode(), column.encode())
        return f"{self.prefix}{base64.urlsafe_b64encode(nonce + sealed).decode()}"

    def open(self, column: str, value: str) -> str:
        """Return the text of a value; raise `SealingError` if no key opens it.

        A value that was stored before its column was sealed is returned as it is.
        """
        if not value.startswith(_MARK):
            return value
        key_id, _, content = value.removeprefix(_MARK).partition(":")
        if key_id not in self._keys:
            raise SealingError(column)
        try:
            raw = base64.urlsafe_b64decode(content)
            opened: bytes = _cipher(self._keys[key_id]).decrypt(
                raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], column.encode()
            )
        except Exception as error:  # the library's error, or the encoding's
            raise SealingError(column) from error
        return opened.decode()


def find_key_id(value: str) -> str | None:
    """Return the ID of the key that sealed a value; None if it isn't sealed."""
    return value.removeprefix(_MARK).partition(":")[0] if value.startswith(_MARK) else None


def use_sealer(engine: Engine, config: Config) -> None:
    """Let this engine's sessions read and write sealed columns."""
    engine.dialect.sealer = Sealer.from_config(config)  # type: ignore[attr-defined]


class SealedText(TypeDecorator[str]):
    """A text that is sealed in the database; `column` is its `table.column`.

    A value that can't be opened reads as empty: a lost key must not take pages down.
    """

    impl = String
    cache_ok = True

    def __init__(self, column: str) -> None:
        super().__init__()
        self.column = column

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        sealer = _sealer_of(dialect)
        return sealer.seal(self.column, value) if sealer and value else value

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        sealer, stored = _sealer_of(dialect), cast(str | None, value)
        if sealer is None or stored is None:
            return stored
        try:
            return sealer.open(self.column, stored)
        except SealingError:
            _log.error("sealed_value_unreadable", column=self.column, key_id=find_key_id(stored))
            return ""


def _sealer_of(dialect: Dialect) -> Sealer | None:
    return getattr(dialect, "sealer", None)


def _key_id(derived: bytes) -> str:
    return hashlib.sha256(b"id" + derived).hexdigest()[:8]


def _cipher(key: bytes) -> Any:
    # Most processes never open a sealed value, and the library takes long to import.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)
