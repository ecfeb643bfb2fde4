"""An audit of totals: the findings that a usage report alone proves, with no call sent.

Counts by day, key, model and tier are enough for what is linear in tokens. Where calls cover a day
and model, their findings win: only the rest is judged here, so no dollar is found twice.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from statistics import median
from typing import Any, Final

from sqlalchemy import Connection

from service.connections import list_providers
from service.connections.provider import UsageLine
from service.models.connections.totals import (
    COUNTS,
    list_unused_keys,
    sum_by_hour,
    sum_by_key,
)
from service.operations.connections.coverage import Coverage, Known
from service.operations.connections.plan import month_start
from service.operations.connections.pricing import Price, price_as

DAYS: Final = 30
OLD_MODEL, UNCACHED, UNREAD_WRITES = "replaced_model", "uncached_key", "unread_writes"
BATCH, UNUSED = "batch_like_key", "unused_key"
VERIFIED, CONDITIONAL, INFORMATIONAL = "VERIFIED", "CONDITIONAL", "INFORMATIONAL"
CONFIDENCE: Final[Mapping[str, str]] = {
    OLD_MODEL: CONDITIONAL,  # the dollars are exact, whether its answers do is for a test
    UNCACHED: INFORMATIONAL,
    UNREAD_WRITES: VERIFIED,
    BATCH: CONDITIONAL,
    UNUSED: INFORMATIONAL,
}
_SUCCESSOR: Final = 2  # the kind of target that replaces a model
_LEAST_USD: Final = Decimal(1)
# A key is far below the others of its model with less than half of their median share.
_FEWEST_KEYS: Final = 3
_LEAST_PROMPT: Final = 1_000_000
_LEAST_MEDIAN: Final = 0.1
_FAR_BELOW: Final = 0.5
# A key is batch-like if it works in every hour of the day, about as much in each, for days.
_LEAST_BUCKETS: Final = 72
_MOST_OF_MEAN: Final = 1.5
_LEAST_OF_MEAN: Final = 0.5
_SHOWN: Final = 50


@dataclass(frozen=True)
class TotalsFinding:
    """What totals prove. `usd` is for the last 30 days, at list price."""

    kind: str
    usd: Decimal
    project: str = ""
    key: str = ""
    model: str = ""
    better: str = ""  # the model to use instead
    share: float | None = None  # of cached tokens
    usual: float | None = None  # the median share of the others
    # By what it is the same again, whatever the names are.
    project_id: str = ""
    key_id: str = ""
    provider: str = ""

    @property
    def confidence(self) -> str:
        return CONFIDENCE[self.kind]


_LABELS: Final = ("project_id", "key_id", "model", "tier", "context", "region")
Group = tuple[str, ...]  # the values of these


def audit_totals(
    connection: Connection, account_id: str, provider: str, today: date, *, covers: bool = True
) -> list[TotalsFinding]:
    """Return what the totals of the last 30 days prove, most dollars first.

    Unless told not to, leave out what calls cover. Where usage has dollars of its own, ours aren't
    what is paid, so nothing is proven.
    """
    pulled = list_providers().get(provider)
    if pulled is None or pulled.prices_usage:
        return []
    days = (today - timedelta(days=DAYS), today - timedelta(days=1))
    known = Known(connection, account_id)
    price, names = known.price_with(provider), known.names
    asked = (connection, account_id, provider, days)
    unsent = Coverage(*asked, known).list_unsent() if covers else {}
    groups = _sum_groups(sum_by_key(*asked), unsent)
    hours = sum_by_hour(connection, account_id, provider)
    found = [
        *_find_old_models(groups, known.book, provider, price),
        *_find_uncached(groups, price),
        *_find_unread(groups, price),
        *_find_batch(groups, hours, price),
    ]
    found = [each for each in found if each.usd >= _LEAST_USD]
    unused = list_unused_keys(connection, account_id, provider, days[0])[:_SHOWN]
    found += [TotalsFinding(UNUSED, Decimal(0), row.parent_id, row.name_id) for row in unused]
    named = [
        replace(
            each,
            provider=provider,
            project_id=each.project,
            key_id=each.key,
            project=names.get(("project", each.project), "") or each.project,
            key=names.get(("key", each.key), "") or each.key,
        )
        for each in found
    ]
    return sorted(named, key=lambda each: (-each.usd, each.kind, each.project, each.key))


def _sum_groups(
    rows: Sequence[Any], unsent: Mapping[tuple[date, str, str], Decimal]
) -> Mapping[Group, UsageLine]:
    """Add up the counts that calls don't cover."""
    groups: dict[Group, UsageLine] = {}
    for row in rows:
        left = unsent.get((row.day, row.model, row.project_id), Decimal(1))
        if left <= 0:
            continue
        labels, at = {name: getattr(row, name) for name in _LABELS}, month_start(row.day)
        key = tuple(labels.values())
        before = groups.get(key) or UsageLine(bucket=at, **labels)
        counts = {name: getattr(before, name) + int(getattr(row, name) * left) for name in COUNTS}
        groups[key] = replace(before, bucket=max(before.bucket, at), **counts)
    return groups


def _find_old_models(
    groups: Mapping[Group, UsageLine], book: Any, provider: str, price: Price
) -> Iterator[TotalsFinding]:
    """Find models that their provider has replaced with a cheaper one: the same tokens there."""
    saved: dict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    for (project, _key, model, *_labels), line in groups.items():
        listing = book.find_listing(provider, model)
        if listing is None or listing.target is None or listing.target_kind != _SUCCESSOR:
            continue
        now, then = price(line), price_as(listing.target, line)
        if now is not None and then is not None:
            saved[project, model, listing.target.model] += now - then
    for (project, model, better), usd in saved.items():
        yield TotalsFinding(OLD_MODEL, usd, project, "", model, better)


def _find_uncached(groups: Mapping[Group, UsageLine], price: Price) -> Iterator[TotalsFinding]:
    """Find keys that cache far less than what other keys reach with the same model."""
    by_model: dict[str, dict[tuple[str, str], list[UsageLine]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for (project, key, model, *_labels), line in groups.items():
        by_model[model][project, key].append(line)
    for model, keys in by_model.items():
        shares = {}
        for owner, lines in keys.items():
            prompt = sum(line.prompt_tokens for line in lines)
            if prompt >= _LEAST_PROMPT:
                shares[owner] = sum(line.cached_tokens for line in lines) / prompt
        if len(shares) < _FEWEST_KEYS:
            continue
        for owner, share in shares.items():
            usual = median(value for other, value in shares.items() if other != owner)
            if usual < _LEAST_MEDIAN or share >= usual * _FAR_BELOW:
                continue
            usd = Decimal(0)
            for line in keys[owner]:
                more = max(int(line.prompt_tokens * usual) - line.cached_tokens, 0)
                room = line.prompt_tokens - line.cached_tokens - line.cache_write_tokens
                cached = line.cached_tokens + min(more, room)
                usd += _saved(price, line, replace(line, cached_tokens=cached))
            yield TotalsFinding(UNCACHED, usd, *owner, model, share=share, usual=usual)


def _saved(price: Price, line: UsageLine, other: UsageLine) -> Decimal:
    """Return what a line would cost less with the other's counts and tier."""
    now, then = price(line), price(other)
    return Decimal(0) if now is None or then is None else now - then


def _find_unread(groups: Mapping[Group, UsageLine], price: Price) -> Iterator[TotalsFinding]:
    """Find writes that cost more than their reads save: without caching, it would be less."""
    lost: dict[Group, Decimal] = defaultdict(Decimal)
    for group, line in groups.items():
        if line.cache_write_tokens:
            plain = replace(line, cached_tokens=0, cache_write_tokens=0, cache_write_1h_tokens=0)
            lost[group[:3]] += _saved(price, line, plain)
    for (project, key, model), usd in lost.items():
        yield TotalsFinding(UNREAD_WRITES, usd, project, key, model)


def _find_batch(
    groups: Mapping[Group, UsageLine], hours: Sequence[Any], price: Price
) -> Iterator[TotalsFinding]:
    """Find keys that work steadily around the clock, which the batch tier does for less."""
    by_key: dict[tuple[str, str, str], dict[int, int]] = defaultdict(dict)
    buckets: dict[tuple[str, str, str], int] = defaultdict(int)
    for row in hours:
        owner = (row.project_id, row.key_id, row.model)
        by_key[owner][int(row.hour)] = int(row.tokens)
        buckets[owner] += row.buckets
    for owner, found in by_key.items():
        mean = sum(found.values()) / 24
        is_steady = len(found) == 24 and buckets[owner] >= _LEAST_BUCKETS
        if not is_steady or max(found.values()) > _MOST_OF_MEAN * mean:
            continue
        if min(found.values()) < _LEAST_OF_MEAN * mean:
            continue
        lines = [line for group, line in groups.items() if group[:3] == owner and not line.tier]
        usd = sum((_saved(price, line, replace(line, tier="batch")) for line in lines), Decimal(0))
        yield TotalsFinding(BATCH, usd, *owner)
