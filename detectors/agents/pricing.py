"""Dollars of the ledger's calls: the price book's rates, kept in the ledger by model and tier.

A call is priced as `prices.table` prices a frame, which a test compares. Only a model, tier or
region that is new, or other prices, load the price book.
"""

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from detectors.agents.folders import data_folder
from detectors.agents.ledger import Ledger
from detectors.formats.adapters.calls import AnswerDetails, Call, PromptDetails

if TYPE_CHECKING:
    from detectors.prices.book import PriceBook
    from detectors.prices.listing import Listing

_DAY_SECONDS: Final = 86_400
_NEW: Final = (
    "SELECT number, changed, at, provider, model, tier, region, body FROM calls WHERE usd IS NULL"
)
# Parts that a call counts beside its tokens: of the prompt, of the answer, and what is no token.
_OF_PROMPT: Final = {"audio_tokens": "input_audio_tokens", "image_tokens": "input_image_tokens"}
_OF_ANSWER: Final = {
    "reasoning_tokens": "output_reasoning_tokens",
    "audio_tokens": "output_audio_tokens",
    "image_tokens": "output_image_tokens",
}
_UNPRICED: Final = -1.0  # in place of dollars


class Cell(msgspec.Struct, frozen=True, array_like=True):
    """The rates of one model between two changes of its price, in US dollars per unit.

    `extra` are surcharges beyond these, by unit.
    """

    input: float
    cached: float
    written: float
    output: float
    request: float
    has_cached: bool
    has_written: bool
    written_1h: float
    extra: dict[str, float]


class Cells(msgspec.Struct, frozen=True, array_like=True):
    """The cells of a model: by time, second of the day and length of prompt, in this order."""

    moments: list[int]  # seconds since 1970
    day_seconds: list[int]
    lengths: list[int]
    cells: list[Cell | None]

    def find(self, at_us: int, prompt: int, cached: int) -> Cell | None:
        at = at_us // 1_000_000
        period = bisect_right(self.moments, at)
        daytime = bisect_right(self.day_seconds, at % _DAY_SECONDS)
        length = sum(prompt > start or cached > start for start in self.lengths)
        days, sizes = len(self.day_seconds) + 1, len(self.lengths) + 1
        return self.cells[(period * days + daytime) * sizes + length]


def price_new(ledger: Ledger, current: str, *, may_load: bool = True) -> int:
    """Price the calls without dollars; return how many wait for the price book, unless `may_load`.

    With other prices than the last time, of which `current` is the name, all are priced again.
    """
    rates = LedgerRates(ledger, current, may_load=may_load)
    waiting, priced = 0, list[tuple[float, int, int]]()
    for number, changed, at, *names, body in ledger.database.execute(_NEW).fetchall():
        usd = rates.usd_of(_decode(body), at, *names)
        if usd is None:
            waiting += 1
        else:
            priced.append((usd, number, changed))
    if priced or rates.added:
        with ledger.changing():
            # One that has changed meanwhile waits for the next time.
            query = "UPDATE calls SET usd = ? WHERE number = ? AND changed = ?"
            ledger.database.executemany(query, priced)
            rates.save()
    return waiting


class LedgerRates:
    """The rates of the ledger, and of the price book for what it has none of, if they `may_load`.

    With other prices than the last time, the ledger's dollars and rates are deleted.
    """

    def __init__(self, ledger: Ledger, current: str, *, may_load: bool = True) -> None:
        self._database = ledger.database
        self._may_load = may_load
        if ledger.get("prices") != current and may_load:
            with ledger.changing():
                self._database.execute("DELETE FROM rates")
                self._database.execute("UPDATE calls SET usd = NULL")
                ledger.put("prices", current)
        rows = self._database.execute("SELECT * FROM rates")
        self._known = {tuple(row[:4]): _decode_cells(row[4]) for row in rows}
        self._book: PriceBook | None = None
        self.added: list[tuple[Any, ...]] = []

    def usd_of(self, call: Call, at_us: int, *names: str) -> float | None:
        """Return a call's dollars, as the ledger has them; None if it waits for the price book."""
        if names not in self._known and self._may_load:
            provider, model, tier, region = names
            if self._book is None:
                self._book = load_book()
            listing = self._book.find_listing(provider, model)
            found = cells_of(listing, tier, region) if listing else Cells([], [], [], [None])
            self._known[names] = found
            self.added.append((*names, msgspec.msgpack.encode(found)))
        cells = self._known.get(names)
        if cells is None:
            return None
        usd = sum_parts(parts_of(call, cells, at_us))
        return _UNPRICED if usd is None else usd

    def save(self) -> None:
        self._database.executemany(
            "INSERT OR REPLACE INTO rates VALUES (?, ?, ?, ?, ?)", self.added
        )
        self.added = []


def load_book() -> "PriceBook":
    from detectors.prices.book import PriceBook

    if (data_folder(os.environ, Path.home()) / "prices.json").exists():
        from detectors.prices.updates import load

        return load()
    return PriceBook()


def cells_of(listing: "Listing", tier: str, region: str) -> Cells:
    """Return a model's rates at every time and length of prompt at which they change."""
    from datetime import UTC, datetime

    from detectors.prices.lookup.published import priced_regions

    changes = listing.find_boundaries(tier)
    moments = sorted(int(each.timestamp()) for each in changes.moments)
    seconds = sorted(changes.day_seconds - {0})
    lengths = sorted(changes.prompt_tokens)
    region = region if region in priced_regions() else ""
    first = min([*moments, 1_600_000_000]) - _DAY_SECONDS
    places = product([first, *moments], [0, *seconds], [0, *(each + 1 for each in lengths)])
    names = (*_OF_PROMPT.values(), *_OF_ANSWER.values(), "web_searches")
    cells: list[Cell | None] = []
    for moment, second, tokens in places:
        day = moment - moment % _DAY_SECONDS
        at = datetime.fromtimestamp(day + second, UTC)
        rates = listing.find_rates(at, tokens, tier, region)
        if rates is None:
            cells.append(None)
            continue
        extra = {name: rates.surcharge(name) for name in names}
        cells.append(
            Cell(
                rates.input_usd,
                rates.cache_read_usd,
                rates.cache_write_usd,
                rates.output_usd,
                rates.request_usd,
                rates.has("cache_read_tokens"),
                rates.has("cache_write_tokens"),
                rates.cache_write_1h_usd,
                {name: rate for name, rate in extra.items() if rate},
            )
        )
    return Cells(moments, seconds, lengths, cells)


def parts_of(call: Call, cells: Cells, at_us: int) -> list[tuple[str, float, float]] | None:
    """Return what each part of a call counts and its rate; None without a price.

    As in `prices.spending`, cached tokens are subtracted from the prompt only if they have a rate.
    """
    usage = call.usage
    asked = usage.prompt_tokens_details or _NO_PROMPT
    cached, written = asked.cached_tokens, asked.cache_write_tokens
    cell = cells.find(at_us, usage.prompt_tokens, cached + written)
    if cell is None:
        return None
    if usage.prompt_tokens >= cached + written:
        cached, written = cached * cell.has_cached, written * cell.has_written
    uncached = max(0, usage.prompt_tokens - cached - written)
    for_an_hour = min(call.cache_write_1h_tokens, written)
    parts: list[tuple[str, float, float]] = [
        ("input", uncached, cell.input),
        ("cache read", cached, cell.cached),
        ("cache write", written - for_an_hour, cell.written),
        ("one-hour cache write", for_an_hour, cell.written_1h),
        ("output", usage.completion_tokens, cell.output),
        ("request", 1, cell.request),
        ("web search", call.web_searches, cell.extra.get("web_searches", 0.0)),
    ]
    if len(cell.extra) > ("web_searches" in cell.extra):
        answered = usage.completion_tokens_details or _NO_ANSWER
        parts += _surcharges(asked, _OF_PROMPT, uncached, cell)
        parts += _surcharges(answered, _OF_ANSWER, usage.completion_tokens, cell)
    return [part for part in parts if part[1] and part[2]]


_NO_PROMPT: Final = PromptDetails()
_NO_ANSWER: Final = AnswerDetails()


def _surcharges(
    details: Any, names: dict[str, str], available: int, cell: Cell
) -> Iterator[tuple[str, float, float]]:
    before = 0
    for name, unit in names.items():
        own = getattr(details, name)
        if own and (rate := cell.extra.get(unit)):
            said = f"{unit.removesuffix('_tokens').replace('_', ' ')} beyond text"
            yield said, min(own, max(0, available - before)), rate
            before += own


def sum_parts(parts: Iterable[tuple[str, float, float]] | None) -> float | None:
    return None if parts is None else sum(count * rate for _, count, rate in parts)


_decode: Final = msgspec.msgpack.Decoder(Call).decode
_decode_cells: Final = msgspec.msgpack.Decoder(Cells).decode
