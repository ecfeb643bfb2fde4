"""What only sessions show.

The definitions are docs/cold-restarts.md, long-sessions.md, large-subagents.md and retry-loops.md.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from detectors.agents.ledger import Ledger
from detectors.agents.pricing import Cell, Cells, cells_of, load_book, parts_of, sum_parts
from detectors.agents.views import Choice
from detectors.formats.adapters.calls import Call as StoredCall
from detectors.prices.lookup.targets import LADDER

FIVE_MINUTES, AN_HOUR = 300, 3_600  # how long a cache lives without being read
LEAST_TOKENS: Final = 1_024
_LEAST_SHARE: Final = 0.5  # of what was in the cache
LEAST_PAST: Final = 20_000  # tokens of a context beyond its beginning
LEAST_REREAD: Final = 100_000
SHORT_ANSWER: Final = 400
LEAST_CALLS: Final = 5
LEAST_RESULT: Final = 50
LEAST_EQUAL: Final = 4  # results of one size, one after the other
_NEEDED_EQUAL: Final = 2  # of them, that nobody would call a loop
_MICRO: Final = 1_000_000
_CALLS: Final = """
SELECT session, at, agent, project, provider, model, tier, region, is_metered, prompt, completion,
    cached, written, written_1h, usd, body
FROM calls WHERE {where} AND session <> '' AND is_subagent = {subagents}
ORDER BY session, model, at, number
"""
_BREAKS: Final = """
SELECT session, at, at - earlier FROM (
    SELECT session, at, lag(at) OVER (PARTITION BY session ORDER BY at) AS earlier
    FROM calls WHERE {where} AND session <> ''
) WHERE at - earlier > ?
"""
_decode_cells: Final = msgspec.msgpack.Decoder(Cells).decode
_decode_call: Final = msgspec.msgpack.Decoder(StoredCall).decode


class Call(NamedTuple):
    session: str
    at: int
    agent: str
    project: str
    provider: str
    model: str
    tier: str
    region: str
    is_metered: int
    prompt: int
    completion: int
    cached: int
    written: int
    written_1h: int
    usd: float | None
    body: bytes

    @property
    def names(self) -> tuple[str, str, str, str]:
        return self.provider, self.model, self.tier, self.region

    @property
    def held(self) -> int:
        """Return the tokens that the call leaves in the cache."""
        return self.cached + self.written


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Where in a session, its tokens and dollars; without a price, no dollars.

    `usd` is the upper end if the finding is an estimate.
    """

    session: str
    at: int  # seconds since 1970
    agent: str
    project: str
    model: str
    tokens: int
    usd: float | None
    is_metered: bool


@dataclass(frozen=True, kw_only=True)
class ColdRestart(Finding):
    """A call that wrote its context into the cache again, because a pause had ended the cache.

    `usd` is what the tokens cost more than read from the cache.
    """

    pause_seconds: int
    lifetime_seconds: int


@dataclass(frozen=True, kw_only=True)
class Estimate(Finding):
    """What counts alone don't prove: all of it may have been needed, so it begins at nothing."""

    calls: int
    least_usd: float | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "least_usd", None if self.usd is None else 0.0)


@dataclass(frozen=True, kw_only=True)
class LongSession(Estimate):
    """A session that went on after a pause, and read what was before it with each later call."""

    pause_seconds: int


@dataclass(frozen=True, kw_only=True)
class LargeSubagents(Estimate):
    """Sub-agents of one session whose answers are all short, and the next smaller model."""

    smaller_model: str


@dataclass(frozen=True, kw_only=True)
class RetryLoop(Estimate):
    """Calls, one after the other, that each got a result of the same size."""

    result_tokens: int


class Findings(NamedTuple):
    cold_restarts: list[ColdRestart]
    long_sessions: list[LongSession]
    large_subagents: list[LargeSubagents]
    retry_loops: list[RetryLoop]


CellOf = Callable[[Call], Cell | None]


def find_all(ledger: Ledger, choice: Choice) -> Findings:
    """Return what these calls show, the most expensive of each kind first."""
    rows = ledger.database.execute("SELECT * FROM rates")
    rates = {tuple(row[:4]): _decode_cells(row[4]) for row in rows}

    def cell_of(call: Call) -> Cell | None:
        cells = rates.get(call.names)
        return cells.find(call.at, call.prompt, call.held) if cells else None

    # When each session went on after a break of all its calls, and the break.
    breaks = defaultdict[str, list[tuple[int, int]]](list)
    where, values = choice.where()
    query = _BREAKS.format(where=where)
    for session, at, length in ledger.database.execute(query, [*values, AN_HOUR * _MICRO]):
        breaks[session].append((at, length))
    found = Findings([], [], [], [])
    for thread in _threads(ledger, choice, subagents=0):
        found.cold_restarts.extend(_cold_restarts(thread, cell_of))
        found.long_sessions.extend(_long_sessions(thread, breaks[thread[0].session], cell_of))
        found.retry_loops.extend(_retry_loops(thread))
    found.large_subagents.extend(_large_subagents(_threads(ledger, choice, subagents=1)))
    for kind in found:
        kind.sort(key=lambda each: (-(each.usd or 0.0), each.at, each.session))
    return found


def _threads(ledger: Ledger, choice: Choice, *, subagents: int) -> Iterator[list[Call]]:
    """Yield the calls of each session and model, in order."""
    where, values = choice.where()
    query = _CALLS.format(where=where, subagents=subagents)
    calls = map(Call._make, ledger.database.execute(query, values))
    return (list(group) for _, group in groupby(calls, attrgetter("session", "model")))


def _at(call: Call) -> dict[str, Any]:
    """Return what every finding says of the call that it begins with."""
    names = [field.name for field in fields(Finding) if field.name not in ("tokens", "usd")]
    values = {name: getattr(call, name) for name in names}
    return {**values, "at": call.at // _MICRO, "is_metered": bool(call.is_metered)}


def _cold_restarts(calls: Sequence[Call], cell_of: CellOf) -> Iterator[ColdRestart]:
    lifetime = FIVE_MINUTES
    for before, call in zip([None, *calls], calls, strict=False):
        is_hour = 2 * call.written_1h > call.written
        if before is not None:
            pause, lost = call.at - before.at, before.held - call.cached
            tokens = min(lost, call.written)
            is_cold = pause > lifetime * _MICRO and lost >= before.held * _LEAST_SHARE
            if before.held and is_cold and tokens >= LEAST_TOKENS:
                usd = None
                if (cell := cell_of(call)) is not None:
                    rate = cell.written_1h if is_hour else cell.written
                    usd = tokens * max(0.0, rate - cell.cached)
                yield ColdRestart(
                    **_at(call), tokens=tokens, usd=usd, pause_seconds=pause // _MICRO,
                    lifetime_seconds=lifetime,
                )  # fmt: skip
        if call.written:
            lifetime = AN_HOUR if is_hour else FIVE_MINUTES


def _long_sessions(
    calls: Sequence[Call], breaks: Sequence[tuple[int, int]], cell_of: CellOf
) -> Iterator[LongSession]:
    """Yield each part of a session after a break, up to the next one or a compaction."""
    base = calls[0].prompt
    pauses: dict[int, int] = {}  # by the place of the first call after them
    for place, (before, call) in enumerate(pairwise(calls), 1):
        if lengths := [length for at, length in breaks if before.at < at <= call.at]:
            pauses[place] = max(lengths)
    for cut, until in pairwise([*pauses, len(calls)]):
        whole, past = calls[cut - 1].prompt, calls[cut - 1].prompt - base
        if past < LEAST_PAST:
            continue
        tokens, count, usd = 0, 0, list[float | None]()
        for call in calls[cut:until]:
            if call.prompt < whole:  # what was before is not in it any more
                break
            read = min(max(0, call.cached - base), past)
            cell = cell_of(call)
            tokens, count = tokens + read, count + (read > 0)
            usd.append(None if cell is None else read * cell.cached)
        if tokens >= LEAST_REREAD:
            yield LongSession(
                **_at(calls[cut]), tokens=tokens, calls=count, usd=_sum(usd),
                pause_seconds=pauses[cut] // _MICRO,
            )  # fmt: skip


def _retry_loops(calls: Sequence[Call]) -> Iterator[RetryLoop]:
    grown = [after.prompt - call.prompt for call, after in pairwise(calls)]
    place = 0
    for size, group in groupby(grown):
        count = len(list(group))
        if size >= LEAST_RESULT and count >= LEAST_EQUAL:
            # The call after a result is what it cost.
            needless = calls[place + 1 + _NEEDED_EQUAL : place + 1 + count]
            yield RetryLoop(
                **_at(needless[0]), calls=len(needless), result_tokens=size,
                tokens=sum(call.prompt + call.completion for call in needless),
                usd=_sum(None if (call.usd or 0.0) < 0 else call.usd for call in needless),
            )  # fmt: skip
        place += count


def _large_subagents(threads: Iterable[list[Call]]) -> Iterator[LargeSubagents]:
    book = None
    smaller: dict[tuple[str, ...], tuple[str, Cells] | None] = {}
    for calls in threads:
        if len(calls) < LEAST_CALLS or max(call.completion for call in calls) > SHORT_ANSWER:
            continue
        usd = 0.0
        for call in calls:
            if call.names not in smaller:
                book = book or load_book()
                listing = book.find_listing(call.provider, call.model)
                target = listing.target if listing and listing.target_kind == LADDER else None
                smaller[call.names] = None
                if target is not None:
                    cells = cells_of(target, call.tier, call.region)
                    smaller[call.names] = target.model, cells
            if (found := smaller[call.names]) is None or call.usd is None or call.usd < 0:
                break
            cost = sum_parts(parts_of(_decode_call(call.body), found[1], call.at))
            if cost is None:
                break
            usd += call.usd - cost
        else:
            if usd > 0 and (named := smaller[calls[0].names]):
                tokens = sum(call.prompt + call.completion for call in calls)
                yield LargeSubagents(
                    **_at(calls[0]), calls=len(calls), tokens=tokens, usd=usd,
                    smaller_model=named[0],
                )  # fmt: skip


def _sum(amounts: Iterable[float | None]) -> float | None:
    found = list(amounts)
    return None if None in found else sum(amount or 0.0 for amount in found)
