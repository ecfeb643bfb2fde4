"""The secrets that the service issues, and the signatures of report links.

A secret is a prefix, 32 random base62 characters and a checksum of 6, so that a mistyped secret is
rejected without a query and secret scanners can find leaked secrets. Only hashes are stored.
"""

import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from itsdangerous import BadData, TimestampSigner, URLSafeTimedSerializer
from itsdangerous.encoding import base64_decode, base64_encode

from service.errors import NotFoundError

_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM_LENGTH: Final = 32
_CHECKSUM_LENGTH: Final = 6
_SHAPE: Final = re.compile(
    rf"([a-z]+_)([0-9A-Za-z]{{{_RANDOM_LENGTH}}})([0-9A-Za-z]{{{_CHECKSUM_LENGTH}}})", re.ASCII
)
_SHOWN_RANDOM_LENGTH: Final = 4
_SECONDS_PER_DAY: Final = 86_400


class Kind(StrEnum):
    """The kind of a secret, given by its prefix."""

    INGEST_KEY = "ik_"
    READ_TOKEN = "rt_"  # noqa: S105 - the prefix is public
    MAGIC_LINK = "ml_"
    WEB_SESSION = "ws_"
    PENDING_SIGN_IN = "ps_"
    BROWSER = "br_"
    CLIENT_ID = "oac_"  # not secret, but with the same checksum
    CLIENT_SECRET = "oas_"  # noqa: S105 - the prefix is public
    AUTHORIZATION_CODE = "oaq_"
    ACCESS_TOKEN = "at_"  # noqa: S105 - the prefix is public


def mint(kind: Kind) -> str:
    """Return a new secret of this kind, to be shown once."""
    random = "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_LENGTH))
    return f"{kind}{random}{_checksum(random)}"


def mint_hashed(kind: Kind) -> tuple[str, bytes]:
    """Return a new secret of this kind and its hash, which may be stored."""
    secret = mint(kind)
    return secret, _hash(secret)


def derive(kind: Kind, secret_key: str, row_id: str) -> tuple[str, bytes]:
    """Return the secret of this kind that belongs to a row, and its hash, which may be stored.

    It can be derived again from `SECRET_KEY`, so it need not be stored until a job mails it.
    """
    digest = hmac.new(secret_key.encode(), f"{kind}{row_id}".encode(), hashlib.sha256).digest()
    random = _base62(int.from_bytes(digest), _RANDOM_LENGTH)
    secret = f"{kind}{random}{_checksum(random)}"
    return secret, _hash(secret)


def key_id(secret_key: str) -> str:
    """Return a short name for a key, which reveals nothing of it."""
    return hmac.new(secret_key.encode(), b"key id", hashlib.sha256).hexdigest()[:8]


def hash_person(secret_key: str, account_id: str, person: str) -> str:
    """Return an ID for a person, which only this installation can make, for this account."""
    named = f"person {account_id} {person}".encode()
    return hmac.new(secret_key.encode(), named, hashlib.sha256).hexdigest()[:32]


def begin_series_hash(secret_key: str, account_id: str) -> hmac.HMAC:
    """Begin the hash of what measures something, which only this installation can make."""
    return hmac.new(secret_key.encode(), f"series {account_id} ".encode(), hashlib.sha256)


def find_hash(kind: Kind, secret: str) -> bytes | None:
    """Return the hash of a well-formed secret of this kind; None for anything else."""
    match = _SHAPE.fullmatch(secret)
    if match is None or match[1] != kind:
        return None
    if not secrets.compare_digest(_checksum(match[2]), match[3]):
        return None
    return _hash(secret)


def shown_prefix(secret: str) -> str:
    """Return the part of a secret that may be stored and shown, to distinguish secrets."""
    kind, _, random = secret.partition("_")
    return f"{kind}_{random[:_SHOWN_RANDOM_LENGTH]}"


def make_dsn(base_url: str, ingest_key: str) -> str:
    """Combine the base URL and the key into one string for the client library."""
    parts = urlsplit(base_url)
    return parts._replace(netloc=f"{ingest_key}@{parts.netloc}").geturl().rstrip("/")


class SignedReport(NamedTuple):
    """What the token of a report link is signed over."""

    audit_id: str
    generation: int
    issued_at: datetime


def sign_report(
    secret_key: str, audit_id: str, generation: int = 0, issued_at: datetime | None = None
) -> str:
    """Return the token of an audit's report link; without a time, it is issued now."""
    # The first generation has the form of every link that earlier releases issued.
    content = [audit_id, generation] if generation else audit_id
    return _serializer(secret_key, issued_at).dumps(content)


def verify_report(secret_keys: str | Sequence[str], token: str, days: int) -> SignedReport:
    """Return the content of a token signed with any of the keys; else raise `NotFoundError`."""
    try:
        content, issued_at = _serializer(secret_keys).loads(
            token, max_age=days * _SECONDS_PER_DAY, return_timestamp=True
        )
    except (BadData, ValueError) as error:
        raise NotFoundError from error
    # Base64 has unused bits in its last character and its decoder skips unknown characters, so
    # without this check several spellings of a signature would be valid.
    signature = token.rpartition(".")[2].encode()
    if base64_encode(base64_decode(signature)) != signature:
        raise NotFoundError
    match content:
        case str(audit_id):
            return SignedReport(audit_id, 0, issued_at.astimezone(UTC))
        case [str(audit_id), int(generation)]:
            return SignedReport(audit_id, generation, issued_at.astimezone(UTC))
    raise NotFoundError


class _DatedSigner(TimestampSigner):
    """Sign with a given time, so that a link is the same whenever it is shown."""

    def __init__(self, *args: Any, issued_at: datetime | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self._issued_at = issued_at

    def get_timestamp(self) -> int:
        return int(self._issued_at.timestamp()) if self._issued_at else super().get_timestamp()


def _serializer(
    secret_keys: str | Sequence[str], issued_at: datetime | None = None
) -> URLSafeTimedSerializer:
    options = {"key_derivation": "hmac", "digest_method": hashlib.sha256, "issued_at": issued_at}
    return URLSafeTimedSerializer(
        secret_keys, salt="report-link", signer=_DatedSigner, signer_kwargs=options
    )


def _hash(secret: str) -> bytes:
    """Hash the random part of a well-formed secret."""
    random = secret.partition("_")[2][:_RANDOM_LENGTH]
    return hashlib.sha256(random.encode()).digest()


def _checksum(random: str) -> str:
    return _base62(zlib.crc32(random.encode()), _CHECKSUM_LENGTH)


def _base62(value: int, length: int) -> str:
    """Return the last `length` digits of a number in base 62."""
    digits = []
    for _ in range(length):
        value, digit = divmod(value, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
