"""One usage record as the reference sees it: absent, null, empty and zero are the same."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import msgspec

from detectors.contract import UsageRecord
from tests.detectors.reference.pricing import Price, price
from tests.detectors.reference.tiers import tier_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Group = tuple[str, str, str]
Order = tuple[object, ...]
LEVELS = 13
DIGITS = 16


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A call with its price; compared by identity, so that savings can be kept per call."""

    record: UsageRecord
    price: Price
    microseconds: int
    prompt: int
    completion: int
    visible: int
    cached: int
    written: int
    written_1h: int
    declared: int
    hash: str
    levels: tuple[str, ...]  # of all levels, "" for those without a hash
    given: int  # how many levels its `prefix_hashes` has
    session: str
    latency: float | None
    group: Group

    @property
    def second(self) -> int:
        return self.microseconds // 1_000_000

    @property
    def cost(self) -> float:
        return self.price.cost

    @property
    def input_rate(self) -> float:
        """The effective input rate `e`."""
        return self.price.input_cost / self.prompt if self.prompt else 0.0

    @property
    def uses_cache(self) -> bool:
        return self.cached > 0 or self.written > 0

    @property
    def time_order(self) -> Order:
        return (
            self.microseconds,
            self.record.request_id or "",
            self.prompt,
            self.completion,
            self.cached,
            self.written,
            self.declared,
            self.levels,
            self.written_1h,
            tier_of(self.record),
            self.cost,  # the page ends at the tier; calls alike in all that may differ in the rest
            self.session,
            self.visible,
            -1.0 if self.latency is None else self.latency,
        )


def seconds_between(before: Call, after: Call) -> float:
    return (after.microseconds - before.microseconds) / 1e6


def microseconds(record: UsageRecord) -> int:
    return (record.ts - _EPOCH) // timedelta(microseconds=1)


def optional(record: UsageRecord, name: str) -> Any:
    """Return a field that only records of the second version have; None in others."""
    return getattr(record, name, None)


def as_call(record: UsageRecord, known: Price) -> Call:
    written = record.cache_write_tokens or 0
    levels = levels_of(record)
    return Call(
        record=record,
        price=known,
        microseconds=microseconds(record),
        prompt=record.prompt_tokens,
        completion=record.completion_tokens,
        visible=record.completion_tokens - (optional(record, "reasoning_tokens") or 0),
        cached=record.cached_tokens or 0,
        written=written,
        written_1h=min(optional(record, "cache_write_1h_tokens") or 0, written),
        declared=record.declared_max_tokens or 0,
        hash=levels[0],
        levels=levels,
        given=len(optional(record, "prefix_hashes") or ()),
        session=optional(record, "session_id") or "",
        latency=record.latency_ms,
        group=(record.tag or record.endpoint or "", record.provider, record.model),
    )


def levels_of(record: UsageRecord) -> tuple[str, ...]:
    """Return the first digits of the hash of each level; the longer hashes are some of them."""
    levels = [*(optional(record, "prefix_hashes") or ())]
    levels += [""] * (LEVELS - len(levels))
    for level, name in ((1, "prefix_hash"), (5, "prefix_hash_16k"), (9, "prefix_hash_64k")):
        levels[level - 1] = levels[level - 1] or (optional(record, name) or "").lower()[:DIGITS]
    return tuple(levels)


def without_echoes(records: Iterable[UsageRecord]) -> list[UsageRecord]:
    """Drop every repetition of a record that has a request id."""
    kept, seen = [], set()
    for record in records:
        key = _fields(record)
        if record.request_id and key in seen:
            continue
        seen.add(key)
        kept.append(record)
    return kept


def _fields(record: UsageRecord) -> tuple[object, ...]:
    """Return every field; null, empty and zero are the same, but a latency of 0 is one."""
    known = msgspec.structs.asdict(record)
    known["ts"] = microseconds(record)
    return tuple(
        (name, _comparable(name, value))
        for name, value in sorted(known.items())
        if value or (name == "latency_ms" and value is not None)
    )


def _comparable(name: str, value: Any) -> object:
    if isinstance(value, list):
        return tuple(value)
    return value.lower() if name.startswith("prefix_hash") and value else value


def priced(records: Iterable[UsageRecord]) -> list[Call]:
    """Return the calls that have a price, in time order."""
    calls = [as_call(record, known) for record in records if (known := price(record)) is not None]
    return sorted(calls, key=lambda call: call.time_order)


def groups(calls: Iterable[Call]) -> Iterator[tuple[Group, list[Call]]]:
    """Yield each group with its calls, which keep their order."""
    by_group = sorted(calls, key=lambda call: call.group)
    for group, members in groupby(by_group, key=lambda call: call.group):
        yield group, list(members)
