"""One usage record as the reference sees it: absent, null, empty and zero are the same."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

from detectors.contract import UsageRecord
from tests.detectors.reference.pricing import Price, price
from tests.detectors.reference.tiers import tier_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Group = tuple[str, str, str]


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A call with its price; compared by identity, so that savings can be kept per call."""

    record: UsageRecord
    price: Price

    @property
    def ts(self) -> datetime:
        return self.record.ts

    @property
    def microseconds(self) -> int:
        return microseconds(self.record)

    @property
    def second(self) -> int:
        return self.microseconds // 1_000_000

    @property
    def prompt(self) -> int:
        return self.record.prompt_tokens

    @property
    def completion(self) -> int:
        return self.record.completion_tokens

    @property
    def cached(self) -> int:
        return self.record.cached_tokens or 0

    @property
    def cache_write(self) -> int:
        return self.record.cache_write_tokens or 0

    @property
    def declared(self) -> int:
        return self.record.declared_max_tokens or 0

    @property
    def prefix_hash(self) -> str:
        return (self.record.prefix_hash or "").lower()

    @property
    def route(self) -> str:
        return self.record.tag or self.record.endpoint or ""

    @property
    def group(self) -> Group:
        return (self.route, self.record.provider, self.record.model)

    @property
    def cost(self) -> float:
        return self.price.cost

    @property
    def input_rate(self) -> float:
        """The effective input rate `e`."""
        return self.price.input_cost / self.prompt if self.prompt else 0.0

    @property
    def time_order(self) -> tuple[int, str, int, int, int, int, int, str, float]:
        return (
            self.microseconds,
            self.record.request_id or "",
            self.prompt,
            self.completion,
            self.cached,
            self.cache_write,
            self.declared,
            self.prefix_hash,
            self.cost,  # calls of different tiers may be alike in all else
        )


def microseconds(record: UsageRecord) -> int:
    return (record.ts - _EPOCH) // timedelta(microseconds=1)


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
    return (
        record.ts,
        record.provider,
        record.model,
        record.prompt_tokens,
        record.completion_tokens,
        record.cached_tokens or 0,
        record.cache_write_tokens or 0,
        record.latency_ms,
        record.endpoint or "",
        record.request_id,
        record.tag or "",
        record.declared_max_tokens or 0,
        (record.prefix_hash or "").lower(),
        tier_of(record),
    )


def priced(records: Iterable[UsageRecord]) -> list[Call]:
    """The calls that have a price, in time order."""
    calls = [Call(record, known) for record in records if (known := price(record)) is not None]
    return sorted(calls, key=lambda call: call.time_order)


def groups(calls: Iterable[Call]) -> Iterator[tuple[Group, list[Call]]]:
    """Each group with its calls, which keep their order."""
    by_group = sorted(calls, key=lambda call: call.group)
    for group, members in groupby(by_group, key=lambda call: call.group):
        yield group, list(members)
