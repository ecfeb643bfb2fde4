"""The copies of calls in the ledger, compared as `scrub` compares them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec

from detectors.formats.adapters.calls import Call, Origin
from detectors.formats.adapters.duplicates import Once, Seen
from detectors.formats.adapters.labels import SUBAGENT
from detectors.prices.model_data import is_flat_rate

encode_origin: Final = msgspec.msgpack.Encoder().encode
_decode_origin: Final = msgspec.msgpack.Decoder(Origin).decode
_decode: Final = msgspec.msgpack.Decoder(Call).decode
_SEEN: Final = len(Seen._fields)


class Rates(Protocol):
    """What prices calls as they are added: `pricing.LedgerRates`."""

    def usd_of(self, call: Call, at_us: int, *names: str) -> float | None: ...
    def save(self) -> None: ...


class Resolver(Once):
    """Finds the calls that copies are; the sessions are those of the ledger.

    With `rates`, the calls have dollars.
    """

    def __init__(
        self, sessions: Iterable[tuple[str, bytes | None, int]], rates: Rates | None = None
    ) -> None:
        super().__init__(Counter())
        self._rates = rates
        for name, origin, ended in sessions:
            self._ends[name] = ended
            if origin is not None:
                self._sessions[name] = _decode_origin(origin)

    def resolve(
        self, id_: str, copies: Sequence[tuple[Any, ...]], now: int
    ) -> list[tuple[Any, ...]]:
        """Return the rows of the calls that these copies of one ID are."""
        if len(copies) == 1:
            seen = copies[0]
            return [self._row(seen[7], id_, seen[10], seen[11], now)]
        agents = {seen[1]: seen[11] for seen in copies}
        group = [Seen._make(seen[:_SEEN]) for seen in copies]
        ways = {seen.number: seen.way for seen in group}
        return [
            self._row(number, id_, body, agents[ways[number]], now)
            for number, body in self._resolve(group)
        ]

    def _row(self, number: int, id_: str, body: bytes, agent: str, now: int) -> tuple[Any, ...]:
        call = _decode(body)
        usage = call.usage
        asked, answered = usage.prompt_tokens_details, usage.completion_tokens_details
        tag = call.tag or ""
        project = tag.removesuffix(SUBAGENT)
        is_metered = call.billing == "metered" or (
            not call.billing and not is_flat_rate(call.provider)
        )
        at = int(call.ts.timestamp() * 1_000_000 + 0.5)
        names = call.provider, call.model, call.service_tier or "", call.region or ""
        return (
            number, id_, at, agent, project, int(tag.endswith(SUBAGENT)), call.session_id or "",
            *names, int(is_metered), usage.prompt_tokens, usage.completion_tokens,
            asked.cached_tokens if asked else 0, asked.cache_write_tokens if asked else 0,
            call.cache_write_1h_tokens, answered.reasoning_tokens if answered else 0,
            call.web_searches, call.reported_usd,
            self._rates.usd_of(call, at, *names) if self._rates else None, body, now,
        )  # fmt: skip
