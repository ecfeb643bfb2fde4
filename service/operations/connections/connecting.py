"""Try an admin key with read-only calls, and connect an account with it."""

from datetime import datetime
from typing import Any, Final

from service.config import Config
from service.connections import list_pulled
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
from service.models.connections.connections import BY_HAND, ProviderConnection
from service.models.connections.failures import explain

MAX_KEY: Final = 500


class KeyRefusedError(Exception):
    """The key doesn't work; the message says why and what to do, and never contains the key."""


def find_provider(config: Config, name: str) -> Provider | None:
    """Return a provider that may be connected in this installation."""
    return list_pulled().get(name) if config.connections == "on" else None


def try_key(config: Config, provider: Provider, key: str) -> dict[str, Any]:
    """Return what a key can see: the organization, its projects and since when it has costs."""
    if not key or not key.isascii() or not key.isprintable() or " " in key or len(key) > MAX_KEY:
        raise KeyRefusedError("This isn't a key. Paste it without spaces or line breaks.")
    if not key.startswith(provider.key_prefix):
        raise KeyRefusedError(
            f"This is the wrong kind of key. {provider.title} needs {provider.key_words}; "
            f"it starts with {provider.key_prefix}."
        )
    try:
        with open_client(provider, key, find_url(config.connection_urls, provider.name)) as client:
            sight = provider.look(client, utc_now())
    except (EmptyWindowError, KeyError, TypeError, ValueError) as error:
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
    }


def make_connection(
    account_id: str, provider: str, key: str, sight: dict[str, Any], **more: Any
) -> ProviderConnection:
    return ProviderConnection(
        account_id=account_id,
        provider=provider,
        key=key,
        organization=sight["organization"],
        sight=sight,
        **more,
    )


def describe_sight(sight: dict[str, Any]) -> str:
    """Return what a key can see: "Acme, 3 projects, costs since Aug 2025"."""
    if BY_HAND in sight:
        return "Reports that you uploaded"
    projects = sight.get("projects")
    parts = [sight.get("organization", "")]
    if projects:
        parts.append(f"{projects:,} {'project' if projects == 1 else 'projects'}")
    if sight.get("first_cost"):
        parts.append(f"costs since {datetime.fromisoformat(sight['first_cost']):%b %Y}")
    else:
        parts.append("no costs yet")
    return ", ".join(filter(None, parts))
