"""The metrics in which coding agents count their own tokens: totals, which are no calls.

Of a data point, the agent, the model, the kind of tokens, the value and its times are kept.
Whatever else describes it, such as a person or a session, is only part of a hash by which series
differ.
`COUNTERS` is also a table in docs/api/otlp.md.
"""

import hmac
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from detectors.formats.fields import LABEL_TEXT
from service.models.connections.agent_totals import ESTIMATE, TAKEN_FOR, Measured
from service.web.otlp.attributes import WHOLE
from service.web.otlp.spans import SpanOrigin, SpanReading, Value
from service.web.otlp.values import AttributeReader

_MAX_MODEL: Final = 200
_MOST: Final = Decimal(10**12)
_LONGEST_NUMBER: Final = 40
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DIGITS: Final = 12  # as the database has them, so that a value that is sent again is the same
_SERIES_BYTES: Final = 16
_NO_VALUE: Final = 1  # among the flags of a data point
# The clocks of machines are wrong by up to a day, as for calls.
_AHEAD: Final = timedelta(days=1)
DELTA, CUMULATIVE = "delta", "cumulative"
TEMPORALITIES: Final[Mapping[int | str, str]] = {
    1: DELTA,
    2: CUMULATIVE,
    "AGGREGATION_TEMPORALITY_DELTA": DELTA,
    "AGGREGATION_TEMPORALITY_CUMULATIVE": CUMULATIVE,
}
# Why a data point is rejected.
NO_COUNTER: Final = "not a counter or a histogram"
NO_LABELS: Final = "no model, or a type of tokens that we don't know"
NO_COUNT: Final = "a value that isn't a count"
NO_TIME: Final = "a time that is missing, more than 2 days ago, or more than a day ahead"
TOO_LARGE: Final = "larger than 64 KiB"
MALFORMED: Final = "not valid OTLP"

_INPUT, _OUTPUT = ("prompt_tokens",), ("completion_tokens",)
_CACHED, _WRITTEN = ("cached_tokens",), ("cache_write_tokens",)


class AgentCounter(NamedTuple):
    """A metric of an agent, whose data points count tokens by `type`, or dollars without one.

    `types` has the columns of our totals that each type is part of: none if others have it. Points
    with other values than `only` are another program's.
    """

    agent: str
    type: str | None
    types: Mapping[str, Sequence[str]]
    models: Sequence[str] = ("model",)
    only: Mapping[str, str] = {}


COUNTERS: Final[Mapping[str, AgentCounter]] = {
    # https://code.claude.com/docs/en/monitoring-usage
    "claude_code.token.usage": AgentCounter(
        agent="claude-code",
        type="type",
        types={
            "input": _INPUT,
            "output": _OUTPUT,
            "cacheRead": _INPUT + _CACHED,
            "cacheCreation": _INPUT + _WRITTEN,
        },
    ),
    "claude_code.cost.usage": AgentCounter(agent="claude-code", type=None, types={"": (ESTIMATE,)}),
    # https://github.com/openai/codex: codex-rs/core/src/tasks/mod.rs
    "codex.turn.token_usage": AgentCounter(
        agent="codex",
        type="token_type",
        types={
            "input": _INPUT,
            "cached_input": _CACHED,
            "cache_write_input": _WRITTEN,
            "output": _OUTPUT,
            "reasoning_output": (),
            "non_cached_input": (),
            "total": (),
        },
    ),
    # https://github.com/google-gemini/gemini-cli: packages/core/src/telemetry/metrics.ts. Its
    # `gen_ai.client.token.usage` counts the same tokens.
    "gemini_cli.token.usage": AgentCounter(
        agent="gemini-cli",
        type="type",
        types={
            "input": _INPUT,
            "tool": _INPUT,
            "cache": _CACHED,
            "output": _OUTPUT,
            "thought": _OUTPUT,
        },
    ),
    # https://code.visualstudio.com/docs/agents/guides/monitoring-agents
    "gen_ai.client.token.usage": AgentCounter(
        agent="copilot",
        type="gen_ai.token.type",
        types={"input": _INPUT, "output": _OUTPUT},
        models=("gen_ai.response.model", "gen_ai.request.model"),
        only={"gen_ai.provider.name": "github"},
    ),
}


class MetricPoint(NamedTuple):
    """A data point as it is in either encoding."""

    begun_ns: int
    ended_ns: int
    value: float | str | None
    attributes: Sequence[Any]
    flags: int


class Stream(NamedTuple):
    """What a process measures: its resource and scope, the metric, and its temporality."""

    counter: AgentCounter
    temporality: str
    hashed: hmac.HMAC


class MetricReading(SpanReading):
    """What is known of a request of metrics while its data points are read.

    A series is known by a hash that goes on from `series_hash`.
    """

    def __init__(self, series_hash: hmac.HMAC, now: datetime) -> None:
        super().__init__()
        self._series_hash = self._resource_hash = self._scope_hash = series_hash
        self._origin: SpanOrigin | None = None
        self._first, self._last = (
            int(at.timestamp()) * 10**9 for at in (now - TAKEN_FOR, now + _AHEAD)
        )
        self.kinds = {}  # no attribute is skipped, because any may tell two series apart
        self.measured: list[Measured] = []
        self.unused = 0  # metrics and data points that are no agent's counts
        self.refused: Counter[str] = Counter()  # data points, by why

    def classify(self, name: str) -> int:
        """Read every attribute, and note no text: none is kept."""
        return WHOLE

    def make_origin(self, scope: str, version: str, resource: Mapping[str, Value]) -> SpanOrigin:
        """Return an origin of whole texts, because any may tell two series apart."""
        return SpanOrigin(scope, version, resource)

    def find_counter(self, name: str) -> AgentCounter | None:
        """Return what a metric counts; None for one that is not used."""
        found = COUNTERS.get(name)
        self.unused += found is None
        return found

    def begin_stream(
        self, counter: AgentCounter, origin: SpanOrigin, metric: str, temporality: str
    ) -> Stream:
        """Hash what all data points of a metric share; what is above it, once for all below."""
        if origin is not self._origin:
            if self._origin is None or origin.resource is not self._origin.resource:
                said = repr(sorted(origin.resource.items()))
                self._resource_hash = _extend(self._series_hash, said)
            scope = repr((origin.scope, origin.version))
            self._origin, self._scope_hash = origin, _extend(self._resource_hash, scope)
        shared = _extend(self._scope_hash, repr((metric, temporality)))
        return Stream(counter, temporality, shared)

    def read_point(self, stream: Stream, point: MetricPoint, reader: AttributeReader) -> None:
        """Keep the value of a data point, or note why not."""
        counter, temporality, shared = stream
        self.spend(len(point.attributes))
        labels = {each.key: reader.plain(each.value, self) for each in point.attributes}
        is_other = any(labels.get(name) != value for name, value in counter.only.items())
        if is_other or point.flags & _NO_VALUE:
            self.unused += 1
            return
        model = next((labels[name] for name in counter.models if labels.get(name)), None)
        columns = counter.types.get(str(labels.get(counter.type)) if counter.type else "")
        is_named = isinstance(model, str) and 0 < len(model) <= _MAX_MODEL
        is_named = is_named and LABEL_TEXT.match(str(model)) is not None
        amount = _read_amount(point.value)
        begun, ended = point.begun_ns, point.ended_ns
        is_delta = temporality == DELTA
        if not temporality:
            self.refused[NO_COUNTER] += 1
        elif columns is None or not is_named:
            self.refused[NO_LABELS] += 1
        elif amount is None or (counter.type and amount != int(amount)):
            self.refused[NO_COUNT] += 1
        elif not (self._first <= ended <= self._last and (begun or is_delta) and begun <= ended):
            self.refused[NO_TIME] += 1
        elif columns and amount:
            series = _extend(shared, repr(sorted(labels.items()))).digest()[:_SERIES_BYTES]
            self.measured.append(
                Measured(counter.agent, str(model), columns, series, is_delta, begun, ended, amount)
            )


def _read_amount(value: float | str | None) -> Decimal | None:
    """Return a number of tokens or dollars; None for what is none."""
    text = str(value)
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    number = Decimal(text)
    return round(number, _DIGITS) if 0 <= number <= _MOST else None


def _extend(known: hmac.HMAC, described: str) -> hmac.HMAC:
    """Return a hash that goes on; the representations of parts can't run into each other."""
    extended = known.copy()
    extended.update(described.encode())
    return extended
