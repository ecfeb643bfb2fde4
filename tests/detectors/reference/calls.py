"""One usage record as the reference sees it: absent, null, empty and zero are the same."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import msgspec

from detectors.contract import UsageRecord
from tests.detectors.reference.pricing import Price, price

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Group = tuple[str, str, str]
Order = tuple[int, str, int, int, int, int, int, str, float, str, str, str, int, int, float]


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
    hash_16k: str
    hash_64k: str
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
            self.hash,
            self.cost,  # the page ends at the hash; calls alike in all that may differ in the rest
            self.hash_16k,
            self.hash_64k,
            self.session,
            self.written_1h,
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
        hash=(record.prefix_hash or "").lower(),
        hash_16k=(optional(record, "prefix_hash_16k") or "").lower(),
        hash_64k=(optional(record, "prefix_hash_64k") or "").lower(),
        session=optional(record, "session_id") or "",
        latency=record.latency_ms,
        group=(record.tag or record.endpoint or "", record.provider, record.model),
    )


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
        (name, value.lower() if name.startswith("prefix_hash") else value)
        for name, value in sorted(known.items())
        if value or (name == "latency_ms" and value is not None)
    )


def priced(records: Iterable[UsageRecord]) -> list[Call]:
    """Return the calls that have a price, in time order."""
    calls = [as_call(record, known) for record in records if (known := price(record)) is not None]
    return sorted(calls, key=lambda call: call.time_order)


def groups(calls: Iterable[Call]) -> Iterator[tuple[Group, list[Call]]]:
    """Yield each group with its calls, which keep their order."""
    by_group = sorted(calls, key=lambda call: call.group)
    for group, members in groupby(by_group, key=lambda call: call.group):
        yield group, list(members)
