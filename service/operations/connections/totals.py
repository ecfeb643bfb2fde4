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
from service.models.connections.reported import list_names
from service.models.connections.totals import list_unused_keys, sum_by_hour, sum_by_key
from service.operations.connections.plan import month_start
from service.operations.connections.pricing import Price, price_as, price_with
from service.operations.connections.reconciliation import find_coverage, read_inputs
from service.operations.price_terms import find_account_terms

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
    provider: str
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

    @property
    def confidence(self) -> str:
        return CONFIDENCE[self.kind]


Group = tuple[str, str, str, str, str, str]  # project, key, model, tier, context, region


def audit_totals(
    connection: Connection, account_id: str, provider: str, today: date, *, covers: bool = True
) -> list[TotalsFinding]:
    """Return what the totals of the last 30 days prove, most dollars first.

    Unless told not to, leave out what calls cover. Where usage has dollars of its own, ours aren't
    what is paid, so nothing is proven.
    """
    known = list_providers().get(provider)
    if known is None or known.prices_usage:
        return []
    days = (today - timedelta(days=DAYS), today - timedelta(days=1))
    _chosen, book = find_account_terms(connection, account_id)
    names = list_names(connection, account_id)
    price = price_with(book, provider)
    inputs = read_inputs(connection, account_id, provider, days)
    covered = find_coverage(inputs) if covers else {}
    groups = _sum_groups(sum_by_key(connection, account_id, provider, days), covered)
    found = [
        *_find_old_models(groups, book, provider, price),
        *_find_uncached(groups, price, provider),
        *_find_unread(groups, price, provider),
        *_find_batch(groups, sum_by_hour(connection, account_id, provider), price, provider),
        *(
            TotalsFinding(UNUSED, provider, Decimal(0), row.parent_id, row.name_id)
            for row in list_unused_keys(connection, account_id, provider, days[0])[:_SHOWN]
        ),
    ]
    named = [
        replace(
            each,
            project_id=each.project,
            key_id=each.key,
            project=names.get(("project", each.project), "") or each.project,
            key=names.get(("key", each.key), "") or each.key,
        )
        for each in found
    ]
    return sorted(named, key=lambda each: (-each.usd, each.kind, each.project, each.key))


def _sum_groups(
    rows: Sequence[Any], covered: Mapping[tuple[date, str], Decimal]
) -> Mapping[Group, UsageLine]:
    """Add up the counts that calls don't cover."""
    groups: dict[Group, UsageLine] = {}
    for row in rows:
        left = 1 - covered.get((row.day, row.model), Decimal(0))
        if left <= 0:
            continue
        key = (row.project_id, row.key_id, row.model, row.tier, row.context, row.region)
        names = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
        names = (*names, "cache_write_1h_tokens", "requests")  # type: ignore[assignment]
        before = groups.get(key) or UsageLine(
            bucket=month_start(row.day),
            **dict(zip(("project_id", "key_id", "model"), key, strict=False)),
            tier=row.tier,
            context=row.context,
            region=row.region,
        )
        counts = {name: getattr(before, name) + int(getattr(row, name) * left) for name in names}
        groups[key] = replace(before, bucket=max(before.bucket, month_start(row.day)), **counts)
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
        if usd >= _LEAST_USD:
            yield TotalsFinding(OLD_MODEL, provider, usd, project, "", model, better)


def _find_uncached(
    groups: Mapping[Group, UsageLine], price: Price, provider: str
) -> Iterator[TotalsFinding]:
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
        for (project, key), share in shares.items():
            others = [value for owner, value in shares.items() if owner != (project, key)]
            usual = median(others)
            if usual < _LEAST_MEDIAN or share >= usual * _FAR_BELOW:
                continue
            usd = Decimal(0)
            for line in keys[project, key]:
                more = int(line.prompt_tokens * usual) - line.cached_tokens
                room = line.prompt_tokens - line.cached_tokens - line.cache_write_tokens
                usd += _saved_by_reading(line, min(max(more, 0), room), price)
            if usd >= _LEAST_USD:
                yield TotalsFinding(
                    UNCACHED, provider, usd, project, key, model, share=share, usual=usual
                )


def _saved_by_reading(line: UsageLine, tokens: int, price: Price) -> Decimal:
    """Return what a line would cost less if so many of its tokens were read from the cache."""
    now = price(line)
    then = price(replace(line, cached_tokens=line.cached_tokens + tokens))
    return Decimal(0) if now is None or then is None else now - then


def _find_unread(
    groups: Mapping[Group, UsageLine], price: Price, provider: str
) -> Iterator[TotalsFinding]:
    """Find writes that cost more than their reads save: without caching, it would be less."""
    lost: dict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    for (project, key, model, *_labels), line in groups.items():
        if not line.cache_write_tokens:
            continue
        plain = replace(line, cached_tokens=0, cache_write_tokens=0, cache_write_1h_tokens=0)
        now, then = price(line), price(plain)
        if now is not None and then is not None:
            lost[project, key, model] += now - then
    for (project, key, model), usd in lost.items():
        if usd >= _LEAST_USD:
            yield TotalsFinding(UNREAD_WRITES, provider, usd, project, key, model)


def _find_batch(
    groups: Mapping[Group, UsageLine], hours: Sequence[Any], price: Price, provider: str
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
        usd = Decimal(0)
        for group, line in groups.items():
            if group[:3] == owner and not line.tier:
                now, then = price(line), price(replace(line, tier="batch"))
                usd += Decimal(0) if now is None or then is None else now - then
        if usd >= _LEAST_USD:
            yield TotalsFinding(BATCH, provider, usd, *owner)
