"""What only sessions show: cold restarts, by the definition in docs/cold-restarts.md."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from detectors.agents.ledger import Ledger
from detectors.agents.pricing import Cells
from detectors.agents.views import Choice

FIVE_MINUTES, AN_HOUR = 300, 3_600  # how long a cache lives without being read
LEAST_TOKENS: Final = 1_024
_LEAST_SHARE: Final = 0.5  # of what was in the cache
_MICRO: Final = 1_000_000
_CALLS: Final = """
SELECT session, at, agent, project, provider, model, tier, region, is_metered, prompt, cached,
    written, written_1h
FROM calls WHERE {where} AND session <> '' AND NOT is_subagent ORDER BY session, model, at, number
"""
_decode_cells: Final = msgspec.msgpack.Decoder(Cells).decode


@dataclass(frozen=True)
class ColdRestart:
    """A call that wrote its context into the cache again, because a pause had ended the cache.

    `usd` is what the tokens cost more than read from the cache; None where they have no price.
    """

    session: str
    at: int  # seconds since 1970
    agent: str
    project: str
    model: str
    pause_seconds: int
    lifetime_seconds: int
    tokens: int
    usd: float | None
    is_metered: bool


def find_cold_restarts(ledger: Ledger, choice: Choice) -> list[ColdRestart]:
    """Return the cold restarts of these calls, the most expensive first."""
    where, values = choice.where()
    rows = ledger.database.execute("SELECT * FROM rates")
    rates = {tuple(row[:4]): _decode_cells(row[4]) for row in rows}
    calls = ledger.database.execute(_CALLS.format(where=where), values)
    found = list(_find(calls, rates))
    return sorted(found, key=lambda each: (-(each.usd or 0.0), each.at, each.session))


def _find(calls: Iterable[Any], rates: dict[tuple[Any, ...], Cells]) -> Iterable[ColdRestart]:
    thread, ended, held, lifetime = ("", ""), 0, 0, FIVE_MINUTES
    for session, at, agent, project, *names, metered, prompt, cached, written, for_an_hour in calls:
        if (session, names[1]) != thread:
            thread, held, lifetime = (session, names[1]), 0, FIVE_MINUTES
        pause, lost = at - ended, held - cached
        tokens = min(lost, written)
        is_cold = pause > lifetime * _MICRO and lost >= held * _LEAST_SHARE
        if held and is_cold and tokens >= LEAST_TOKENS:
            cells = rates.get(tuple(names))
            cell = cells.find(at, prompt, cached + written) if cells else None
            more = None
            if cell is not None:
                rate = cell.written_1h if 2 * for_an_hour > written else cell.written
                more = tokens * max(0.0, rate - cell.cached)
            yield ColdRestart(
                session, at // _MICRO, agent, project, names[1], pause // _MICRO, lifetime,
                tokens, more, bool(metered),
            )  # fmt: skip
        ended, held = at, cached + written
        if written:
            lifetime = AN_HOUR if 2 * for_an_hour > written else FIVE_MINUTES
