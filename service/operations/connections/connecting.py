"""Try an admin key with read-only calls, and connect an account with it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from sqlalchemy.orm import Session

from detectors.wording.labels import inert
from service.config import Config
from service.connections import list_providers
from service.connections.client import (
    ConnectionFailedError,
    EmptyWindowError,
    UnreadableResponseError,
    WrongKeyError,
    find_url,
    open_client,
)
from service.connections.provider import Provider
from service.models.base import utc_now
from service.models.connections.bill import forget_locks
from service.models.connections.connections import (
    BY_HAND,
    MAX_CONNECTIONS,
    MOST_IDS,
    ConnectionLimitError,
    OtherOrganizationError,
    ProviderConnection,
    SameOrganizationError,
    add_connection,
    compare_soon,
    keep_apart,
    list_connections,
    remove_connection,
    replace_key,
)
from service.models.connections.failures import explain
from service.models.connections.unsent import drop_unsent
from service.operations.findings.totals import drop_totals

MAX_KEY: Final = 500
_MAX_KEY_FILE: Final = 5_000


class KeyRefusedError(Exception):
    """The key doesn't work; the message says why and what to do, and never contains the key."""


def find_provider(config: Config, name: str) -> Provider | None:
    """Return a provider that may be connected in this installation."""
    return list_providers().get(name) if config.connections == "on" else None


def try_key(config: Config, provider: Provider, key: str) -> dict[str, Any]:
    """Return what a key can see: the organization, its projects and since when it has costs."""
    if provider.key_is_file:
        how, is_key = "Paste the whole JSON file.", len(key) <= _MAX_KEY_FILE
    else:
        how = "Paste it without spaces or line breaks."
        is_key = len(key) <= MAX_KEY and key.isprintable() and " " not in key
    if not key or not key.isascii() or not is_key:
        raise KeyRefusedError(f"This isn't a key. {how}")
    if not key.startswith(provider.key_prefix):
        raise KeyRefusedError(
            f"This is the wrong kind of key. {provider.title} needs {provider.key_words}; "
            f"it starts with {provider.key_prefix}."
        )
    try:
        with open_client(provider, key, find_url(config.connection_urls, provider.name)) as client:
            sight = provider.look(client, utc_now())
    except (
        EmptyWindowError,
        KeyError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
    ) as error:
        raise KeyRefusedError(" ".join(explain(UnreadableResponseError.code))) from error
    except ConnectionFailedError as error:
        what, next_step = explain(error.code)
        if isinstance(error, WrongKeyError):
            next_step = f"{provider.title} needs {provider.key_words}."
        raise KeyRefusedError(f"{what} {next_step}") from error
    return {
        "organization": sight.organization,
        "projects": sight.projects,
        "first_cost": sight.first_cost and sight.first_cost.date().isoformat(),
        "missing": list(sight.missing),
        "identity": sorted(filter(None, sight.identity))[:MOST_IDS],
    }


def connect(
    session: Session,
    account_id: str,
    provider: Provider,
    key: str,
    sight: dict[str, Any],
    **more: Any,
) -> ProviderConnection:
    """Connect an account with a key that was tried."""
    connection = ProviderConnection(
        account_id=account_id,
        provider=provider.name,
        key=key,
        organization=sight["organization"],
        sight=sight,
        **more,
    )
    with _explaining_organizations(provider):
        try:
            add_connection(session, connection)
        except ConnectionLimitError as error:
            most = f"You have {MAX_CONNECTIONS} connections. Remove one to add another."
            raise KeyRefusedError(most) from error
    keep_apart(session, account_id, provider.name)
    # Corrections are measured from locked sums, which lack this organization.
    forget_locks(session, account_id, provider.name)
    return connection


def use_key(
    session: Session,
    connection: ProviderConnection,
    provider: Provider,
    key: str,
    sight: dict[str, Any],
) -> None:
    """Replace a connection's key by another of its organization that was tried."""
    with _explaining_organizations(provider):
        replace_key(session, connection, key, sight)


@contextmanager
def _explaining_organizations(provider: Provider) -> Iterator[None]:
    try:
        yield
    except SameOrganizationError as error:
        known = inert(error.connection.label or error.connection.organization)
        as_label = f" as “{known}”" if known else ""
        raise KeyRefusedError(
            f"This {provider.title} organization is already connected{as_label}. A second "
            "connection would count everything twice. Replace that connection's key instead."
        ) from error
    except OtherOrganizationError as error:
        raise KeyRefusedError(
            f"This key belongs to another {provider.title} organization. Connect that one on its "
            "own, and use a key of the same organization here."
        ) from error


def disconnect(session: Session, connection: ProviderConnection, *, keep: bool) -> None:
    """Forget a connection's key and, unless it is to be kept, what was pulled and what it made."""
    account_id, provider = connection.account_id, connection.provider
    remove_connection(session, account_id, connection.id, keep=keep)
    if keep:
        return
    forget_locks(session, account_id, provider)
    # Other organizations of the provider keep their spend, which is compared again without this.
    if not compare_soon(session, account_id, provider):
        drop_unsent(session, account_id, provider)
    left = [each for each in list_connections(session, account_id) if each.provider == provider]
    if all(each.is_by_hand for each in left):  # whose findings are found again
        drop_totals(session, account_id, provider)


def describe_sight(sight: dict[str, Any]) -> str:
    """Return what a key can see: "Acme, 3 projects, costs since Aug 2025"."""
    parts = [sight.get("organization", "")]
    if BY_HAND in sight:
        parts.append("reports that you uploaded")
    else:
        if projects := sight.get("projects"):
            parts.append(f"{projects:,} {'project' if projects == 1 else 'projects'}")
        since = sight.get("first_cost")
        parts.append(
            f"costs since {datetime.fromisoformat(since):%b %Y}" if since else "no costs yet"
        )
    said = ", ".join(filter(None, parts))
    return said if parts[0] else said[:1].upper() + said[1:]
