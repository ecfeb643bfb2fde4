"""Check the arguments of `init()` and `record()`: a value that cannot be used gets the default."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone

from tallystick.sending.making import warn
from tallystick.sending.records import is_prefix_hash, is_provider


def checked_hosts(providers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the pairs whose provider the service would accept, and warn of any other."""
    given = dict(providers or {})
    kept = {host: provider for host, provider in given.items() if is_provider(provider)}
    if len(kept) < len(given):
        warn("init(providers=…) expects lowercase names of providers, such as azure")
    return kept


def checked_streams(wanted: bool | Iterable[str]) -> bool | frozenset[str]:
    """Return whether streams are asked for their usage, or the hosts of those that are."""
    if isinstance(wanted, bool):
        return wanted
    try:
        return frozenset(host.lower() for host in ([wanted] if isinstance(wanted, str) else wanted))
    except (AttributeError, TypeError):
        warn("init(include_usage=…) expects True or the names of hosts, such as llm.example.com")
        return False


def hash_key(key: str | bytes | None) -> bytes | None:
    """Return the key as bytes; None for a value that is no key."""
    if isinstance(key, str):
        return key.encode("utf-8", "surrogatepass") or None
    return key or None if isinstance(key, bytes) else None


def checked_hash(text: str | None) -> str | None:
    return text if is_prefix_hash(text) else None


def seconds(moment: datetime | None) -> float:
    if moment is None:
        return time.time()
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()


def within(least: float, value: float, most: float, default: float) -> float:
    """Return the value if it is a number in bounds, or else the default."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and least <= value <= most else default
