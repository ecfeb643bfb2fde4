"""OAuth applications with their authorization codes and access tokens. Only hashes are stored.

A used code's row is kept, so that reusing the code revokes its tokens. A token's row never outlives
its code's row: an account revokes an application by deleting its codes, and a concurrent redemption
either finishes first or fails.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Self

from sqlalchemy import ForeignKey, bindparam, delete, func, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, Session, mapped_column
from sqlalchemy.types import BigInteger, LargeBinary, Text

from service.core import tokens
from service.models.access.credentials import Credential
from service.models.base import Base, Owned, utc_now
from service.models.identity.accounts import Account

MAX_APPLICATIONS: Final = 20  # per account
CODE_SECONDS: Final = 300
TOKEN_SECONDS: Final = 2_592_000


class OAuthApplication(Owned, Base):
    """An application. Revoking deletes the row with all its codes and tokens."""

    __tablename__ = "oauth_applications"

    client_id: Mapped[str] = mapped_column(unique=True)  # public
    prefix: Mapped[str]  # the first characters of the secret
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    name: Mapped[str]
    redirect_uris: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    secret_rotated_at: Mapped[datetime | None]

    @classmethod
    def minted(
        cls, account_id: str, *, name: str, redirect_uris: Sequence[str]
    ) -> tuple[Self, str]:
        """Return a new row and its secret, which is stored only as a hash."""
        client_id = tokens.mint(tokens.Kind.CLIENT_ID)
        row = cls(account_id=account_id, client_id=client_id, name=name)
        row.redirect_uris = list(redirect_uris)
        return row, row._mint_secret()

    def rotate_secret(self) -> str:
        """Return a new secret; the old one stops working with the commit."""
        self.secret_rotated_at = utc_now()
        return self._mint_secret()

    def _mint_secret(self) -> str:
        secret, self.secret_hash = tokens.mint_hashed(tokens.Kind.CLIENT_SECRET)
        self.prefix = tokens.shown_prefix(secret)
        return secret


class OAuthCode(Owned, Base):
    """An authorization code: single use, valid for minutes."""

    __tablename__ = "oauth_codes"

    application_id: Mapped[str] = mapped_column(
        ForeignKey("oauth_applications.id", ondelete="CASCADE"), index=True
    )
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    redirect_uri: Mapped[str]
    code_challenge: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=utc_now, index=True)
    expires_at: Mapped[datetime] = mapped_column(
        default=lambda: utc_now() + timedelta(seconds=CODE_SECONDS)
    )
    used_at: Mapped[datetime | None]


class OAuthToken(Owned, Base):
    """A read-only access token with the scopes that its account granted."""

    __tablename__ = "oauth_tokens"

    application_id: Mapped[str] = mapped_column(
        ForeignKey("oauth_applications.id", ondelete="CASCADE"), index=True
    )
    code_id: Mapped[str] = mapped_column(
        ForeignKey("oauth_codes.id", ondelete="CASCADE"), index=True
    )
    secret_hash: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    expires_at: Mapped[datetime] = mapped_column(
        default=lambda: utc_now() + timedelta(seconds=TOKEN_SECONDS)
    )
    last_used_at: Mapped[datetime | None]
    uses: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")


class ApplicationLimitError(Exception):
    """The account has the maximum number of applications."""


def add_application(
    session: Session, account_id: str, *, name: str, redirect_uris: Sequence[str]
) -> tuple[OAuthApplication, str]:
    """Add an application; return it and its secret, or raise `ApplicationLimitError`."""
    session.execute(select(Account.id).where(Account.id == account_id).with_for_update())
    query = select(func.count()).where(OAuthApplication.account_id == account_id)
    if (session.scalar(query) or 0) >= MAX_APPLICATIONS:
        raise ApplicationLimitError
    row, secret = OAuthApplication.minted(account_id, name=name, redirect_uris=redirect_uris)
    session.add(row)
    return row, secret


def list_applications(session: Session, account_id: str) -> Sequence[OAuthApplication]:
    """Return the account's own applications, newest first."""
    query = select(OAuthApplication).where(OAuthApplication.account_id == account_id)
    newest = (OAuthApplication.created_at.desc(), OAuthApplication.id)
    return session.scalars(query.order_by(*newest)).all()


def find_own_application(
    session: Session, account_id: str, application_id: str
) -> OAuthApplication | None:
    mine = (OAuthApplication.account_id == account_id, OAuthApplication.id == application_id)
    return session.scalars(select(OAuthApplication).where(*mine)).one_or_none()


def find_application(session: Session, client_id: str) -> OAuthApplication | None:
    """Return the application with this client ID; a malformed ID needs no query."""
    if tokens.find_hash(tokens.Kind.CLIENT_ID, client_id) is None:
        return None
    query = select(OAuthApplication).where(OAuthApplication.client_id == client_id)
    return session.scalars(query).one_or_none()


def revoke_application(session: Session, account_id: str, application_id: str) -> str | None:
    """Delete one of the account's applications with all its codes and tokens.

    Return the prefix of its secret, None if the account has no such application.
    """
    mine = (OAuthApplication.account_id == account_id, OAuthApplication.id == application_id)
    return session.scalar(delete(OAuthApplication).where(*mine).returning(OAuthApplication.prefix))


def find_code(session: Session, application_id: str, secret_hash: bytes) -> OAuthCode | None:
    """Return the application's code, used or not."""
    named = (OAuthCode.application_id == application_id, OAuthCode.secret_hash == secret_hash)
    return session.scalars(select(OAuthCode).where(*named)).one_or_none()


def use_code(session: Session, code: OAuthCode) -> bool:
    """Mark the code as used; return False if it was used before or has expired."""
    now = utc_now()
    unused = (OAuthCode.id == code.id, OAuthCode.used_at.is_(None), OAuthCode.expires_at > now)
    marked = update(OAuthCode).where(*unused).values(used_at=now).returning(OAuthCode.id)
    return session.scalar(marked) is not None


def revoke_issued(session: Session, code: OAuthCode) -> None:
    """Revoke the code's tokens, in a separate statement that sees a concurrent redemption."""
    session.execute(delete(OAuthToken).where(OAuthToken.code_id == code.id))


# Each request with such a token needs it, and making the statement takes longer than running it.
_TOKEN: Final = OAuthToken.__table__.c
_FIND_TOKEN: Final = select(
    *(_TOKEN.id, _TOKEN.account_id, _TOKEN.secret_hash, _TOKEN.last_used_at, _TOKEN.scopes)
).where(_TOKEN.secret_hash == bindparam("secret_hash"), _TOKEN.expires_at > bindparam("now"))


def find_access_token(session: Session, secret_hash: bytes) -> Credential | None:
    given = {"secret_hash": secret_hash, "now": utc_now()}
    row = session.execute(_FIND_TOKEN, given).one_or_none()
    return None if row is None else Credential(*row[:4], scopes=tuple(row[4]))


def revoke_token(session: Session, application_id: str, secret_hash: bytes) -> None:
    """Revoke one of the application's own tokens; do nothing if there is no such token."""
    named = (OAuthToken.application_id == application_id, OAuthToken.secret_hash == secret_hash)
    session.execute(delete(OAuthToken).where(*named))


class AllowedApplication(NamedTuple):
    """An application that may read an account's audits."""

    id: str
    name: str
    scopes: Sequence[str]
    allowed_at: datetime
    last_used_at: datetime | None
    uses: int


def list_allowed(session: Session, account_id: str) -> Sequence[AllowedApplication]:
    """Return the applications with valid tokens for the account, newest first."""
    query = (
        select(OAuthApplication.id, OAuthApplication.name, OAuthToken)
        .join(OAuthToken, OAuthToken.application_id == OAuthApplication.id)
        .where(OAuthToken.account_id == account_id, OAuthToken.expires_at > utc_now())
        .order_by(OAuthToken.created_at)
    )
    grouped: dict[tuple[str, str], list[OAuthToken]] = {}
    for application_id, name, token in session.execute(query):
        grouped.setdefault((application_id, name), []).append(token)
    allowed = []
    for (application_id, name), issued in grouped.items():
        used = [token.last_used_at for token in issued if token.last_used_at is not None]
        allowed.append(
            AllowedApplication(
                id=application_id,
                name=name,
                scopes=sorted({scope for token in issued for scope in token.scopes}),
                allowed_at=issued[0].created_at,
                last_used_at=max(used, default=None),
                uses=sum(token.uses for token in issued),
            )
        )
    return sorted(allowed, key=lambda application: application.allowed_at, reverse=True)


def withdraw(session: Session, account_id: str, application_id: str) -> bool:
    """Revoke the application's access to the account, including codes not yet redeemed."""
    theirs = (OAuthCode.account_id == account_id, OAuthCode.application_id == application_id)
    gone = delete(OAuthCode).where(*theirs).returning(OAuthCode.id)
    return bool(session.scalars(gone).all())
