"""The usual lines of Claude Code and Codex, in one decode each instead of an adapter's many.

What differs in anything that counts is not usual: the line's adapter reads it. A test compares
both. Most of a session's counts are in such lines, so the first run takes half the time.
"""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, DecodeError, Meta, Struct, UnsetType, ValidationError
from msgspec.json import Decoder
from msgspec.structs import asdict, astuple

from detectors.contract import FIRST_INSTANT, LAST_INSTANT
from detectors.formats.adapters.adapter import State
from detectors.formats.adapters.agents import claude_code, codex
from detectors.formats.adapters.calls import (
    AnswerDetails,
    Call,
    Origin,
    PromptDetails,
    Sighting,
    Usage,
)
from detectors.formats.adapters.labels import SUBAGENT, find_model, find_tag, id_of, route_of
from detectors.formats.json_logs.usage.reader import MAX_COUNT, tier_of, unknown_tier

Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
_MILLISECONDS: Final = len("2026-11-28T12:00:00.000Z")
_UNREADABLE: Final = (DecodeError, ValidationError, UnicodeError, RecursionError)


class _Lifetimes(Struct, forbid_unknown_fields=True, gc=False):
    ephemeral_5m_input_tokens: Count = 0
    ephemeral_1h_input_tokens: Count = 0


class _Tools(Struct, forbid_unknown_fields=True, gc=False):
    web_search_requests: Count = 0
    web_fetch_requests: Count = 0


class _Step(Struct, forbid_unknown_fields=True, gc=False):
    """A step of an answer that is the answer itself."""

    type: Literal["message"]
    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_creation_input_tokens: Count = 0
    cache_read_input_tokens: Count = 0
    cache_creation: _Lifetimes | None = None


class _MessageUsage(Struct, forbid_unknown_fields=True, gc=False):
    input_tokens: Count
    output_tokens: Count
    cache_creation_input_tokens: Count = 0
    cache_read_input_tokens: Count = 0
    cache_creation: _Lifetimes | None = None
    server_tool_use: _Tools | None = None
    service_tier: Literal["standard"] | None = None
    speed: Literal["standard", "fast"] | None = None
    inference_geo: Literal["", "global", "not_available"] | None = None
    iterations: list[_Step] | None = None


class _Message(Struct, gc=False):
    id: str = ""
    model: str = ""
    service_tier: None = None
    usage: _MessageUsage | None = None


class _MessageLine(Struct, gc=False):
    timestamp: str = ""
    sessionId: str = ""
    requestId: str = ""
    cwd: str | None = None
    isSidechain: bool | None = None
    message: _Message | None = None
    tag: None = None
    forkedFrom: None = None


class Window(Struct, gc=False):
    used_percent: float | None = None
    window_minutes: int | None = None
    resets_at: int | float | str | None = None
    resets_in_seconds: int | None = None


class Limits(Struct, gc=False):
    """What Codex says of a plan; without the name of one, it is an API key that has no plan."""

    primary: Window | None = None
    secondary: Window | None = None
    plan_type: str | UnsetType | None = UNSET


class _Turn(Struct, forbid_unknown_fields=True, gc=False):
    input_tokens: Count
    output_tokens: Count
    cached_input_tokens: Count = 0
    reasoning_output_tokens: Count = 0
    total_tokens: Count | None = None

    def is_whole(self) -> bool:
        """Check that all parts are within their whole, so that nothing is to be guessed."""
        total = self.input_tokens + self.output_tokens
        return (
            self.cached_input_tokens <= self.input_tokens
            and self.reasoning_output_tokens <= self.output_tokens
            and self.total_tokens in (None, total)
        )


class _SoFar(Struct, gc=False):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0


class _Info(Struct, gc=False):
    total_token_usage: _SoFar
    last_token_usage: _Turn


class _Payload(Struct, gc=False):
    type: Literal["token_count"]
    info: _Info | None = None
    rate_limits: Limits | None = None


class _TurnLine(Struct, gc=False):
    timestamp: str
    type: Literal["event_msg"]
    payload: _Payload


_decode_message: Final = Decoder(_MessageLine).decode
_decode_turn: Final = Decoder(_TurnLine).decode
decode_limits: Final = Decoder(Limits).decode


Found = tuple[Call, Sighting]
NOTHING: Final = ()
Repeated = set[tuple[Any, ...]]


def read_message(line: bytes, state: State, repeated: Repeated) -> Found | tuple[()] | None:
    """Return a message of Claude Code, `NOTHING` without counts; None if it isn't usual."""
    try:
        row = _decode_message(line)
    except _UNREADABLE:
        return None
    message, session = row.message, row.sessionId
    if message is None or (usage := message.usage) is None:
        return NOTHING
    written, cached = usage.cache_creation_input_tokens, usage.cache_read_input_tokens
    for_an_hour = 0
    if (lifetimes := usage.cache_creation) is not None:
        for_an_hour = lifetimes.ephemeral_1h_input_tokens
        written = written or lifetimes.ephemeral_5m_input_tokens + for_an_hour
    searches = usage.server_tool_use.web_search_requests if usage.server_tool_use else 0
    # The next part of a message's content has the message's counts again.
    key = (
        message.id, row.requestId, usage.input_tokens, usage.output_tokens, written, cached,
        for_an_hour, searches, usage.speed,
    )  # fmt: skip
    if key in repeated:
        return NOTHING
    at, model = _moment(row.timestamp), find_model(message.model)
    if not (at and model and session and message.id):
        return None
    if row.requestId:
        repeated.add(key)
    folders = state.setdefault("folders", {})
    name = id_of(session)
    route = folders.setdefault(name, route_of(row.cwd)) or claude_code.name_of(session)
    if route and row.isSidechain:
        route += SUBAGENT
    call = Call(
        at,
        claude_code.SUBSCRIPTION,
        model,
        Usage(
            usage.input_tokens + cached + written,
            usage.output_tokens,
            PromptDetails(cached, written) if cached or written else None,
        ),
        request_id=id_of(message.id),
        tag=route,
        service_tier="fast" if usage.speed == "fast" else None,
        cache_write_1h_tokens=min(for_an_hour, written),
        web_searches=searches,
        session_id=name,
        billing="metered" if message.id.startswith(claude_code.METERED) else None,
    )
    return call, _sighting(Origin(asked=row.requestId), claude_code.ADAPTER.title)


def read_turn(line: bytes, state: State) -> tuple[Found | tuple[()], Limits | None, str] | None:
    """Return a turn of Codex, the plan's limits and its time; None if it isn't usual."""
    try:
        row = _decode_turn(line)
    except _UNREADABLE:
        return None
    limits = row.payload.rate_limits
    if (info := row.payload.info) is None:
        return NOTHING, limits, row.timestamp
    turn, so_far = info.last_token_usage, info.total_token_usage
    at, model, tier = _moment(row.timestamp), find_model(state.get("model")), state.get("tier")
    if not (at and model) or unknown_tier(tier) or not turn.is_whole():
        return None
    state["total"] = asdict(so_far)
    place = "-".join(map(str, astuple(so_far)))
    session = state.get("session")
    call = Call(
        at,
        codex.SUBSCRIPTION,
        model,
        Usage(
            turn.input_tokens,
            turn.output_tokens,
            PromptDetails(turn.cached_input_tokens) if turn.cached_input_tokens else None,
            AnswerDetails(turn.reasoning_output_tokens) if turn.reasoning_output_tokens else None,
        ),
        request_id=id_of(f"{state.get('root') or 'codex'}:{place}"),
        tag=find_tag(state.get("route")) or find_tag(session),
        service_tier=tier_of(tier),
        session_id=id_of(session),
        billing="metered" if limits is not None and limits.plan_type is None else None,
    )
    return (
        (call, _sighting(codex.origin_of(state, place), codex.ADAPTER.title)),
        limits,
        row.timestamp,
    )


def _sighting(origin: Origin, way: str) -> Sighting:
    return Sighting(
        readings=[], moments=(), models=(), providers=(), ids=(), origin=origin, way=way
    )


def _moment(text: str) -> datetime | None:
    """Return a time as both write it, such as `2026-11-28T12:00:00.000Z`."""
    if len(text) != _MILLISECONDS or text[-1] != "Z":
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if FIRST_INSTANT <= moment < LAST_INSTANT else None
