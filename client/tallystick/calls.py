"""One call of a model provider's library, from its request to its usage."""

from __future__ import annotations

from time import perf_counter, time
from typing import Any, Optional

from tallystick import capture
from tallystick.capture import Capture, note_fault
from tallystick.labels import clean_label, current_session, current_tag, entered, sessions
from tallystick.reading.options import Route, declared_limit, route_of
from tallystick.reading.providers import provider_of
from tallystick.reading.usage.reader import Reading, members_of, read_usage, tier_of, unknown_tier
from tallystick.reading.usual import usual_message, usual_usage

_OWN_PROFILE = "application-inference-profile"
_REMEMBERED = 256
# How the IDs of answers begin. Exports, traces and gateways know a call by its answer's ID.
_ANSWER_IDS = ("chatcmpl-", "cmpl-", "resp_", "msg_", "gen-")
# The Responses API's own words; "incomplete" is an answer that was cut off at its limit.
_STATUSES = {"failed": "error", "cancelled": "cancelled"}
# A call that asks for none has this tier.
_USUAL_TIERS = (None, "default", "standard")

# Calls of hosted tools in an answer that cost something beside its tokens.
_TOOLS = frozenset(("web_search_call", "image_generation_call", "image_generation"))
_COUNTED_BESIDE = ("tool_usage", "svg_usage", "created_at")
_READ_BESIDE = frozenset((*_COUNTED_BESIDE, "output", "candidates"))
_KEPT_OF_ITEMS = ("type", "status", "model", "svg_usage")
_WITHOUT_OUTPUT = ("embeddings", "embed")

_models: dict[str, str] = {}
# The counts of a record: of the prompt, the answer, from and to a cache, of reasoning; and parts.
_Counted = tuple[int, int, Optional[int], Optional[int], Optional[int], Optional[dict[str, Any]]]


class Call:
    """Labels and numbers of one call; no other part of its request or response."""

    _answer_id: str | None
    _answered_model: str | None
    _asked: tuple[Any, ...]
    _asked_model: str | None
    _beside: dict[str, Any] | None
    _clock: float
    _created_id: str | None
    _headers: Any
    _is_background: bool
    _is_partial: bool
    _is_stream: bool
    _latency_ms: float | None
    _metrics: dict[str, Any] | None
    _provider: str
    _response_id: str | None
    _started_at: float
    _tier: object
    _usage: Any
    capture: Capture
    endpoint: str | None
    has_ended: bool
    hides_usage: bool
    library: str
    request_id: object
    status: str | None
    __slots__ = tuple(__annotations__)

    def see(self, item: Any) -> None:
        """Find the usage in a stream event or a whole response."""
        members = members_of(item)
        answer_id = members.get("id")
        usage, is_partial = members.get("usage"), False
        if usage is None:
            holder = members.get("response") or members.get("x_groq")
            is_partial = holder is None  # a message that has only begun
            members = members_of(members.get("message") if is_partial else holder)
            usage = members.get("usage")
            answer_id = answer_id or members.get("id")
        if self._is_background:  # a stream's first event has the response, and so its ID
            self._created_id = _text_or_none(answer_id) or self._created_id
        if usage is not None:
            choices = members.get("choices") if self._is_stream else None
            self._is_partial = is_partial or bool(choices and _is_unfinished(choices))
            if self.endpoint == "responses":
                self.status = _STATUSES.get(str(members.get("status")))
            # Anthropic says all in the usage.
            beside = None if self.library == "anthropic" else members
            self.take(usage, members.get("model"), members.get("service_tier"), answer_id, beside)

    def take(
        self,
        usage: Any,
        model: object,
        tier: object = None,
        answer_id: object = None,
        beside: dict[str, Any] | None = None,
    ) -> None:
        """Keep a usage until the call ends, and the model, service tier and ID next to it.

        The last usage of a stream counts; of Anthropic's, later members replace earlier ones.
        `beside` has the members of the answer around it.
        """
        if type(answer_id) is str and answer_id.startswith(_ANSWER_IDS):
            self._answer_id = answer_id
        if type(model) is str:
            self._answered_model = _models.get(model) or _clean_model(model)
        if self._usage is not None:
            if self.library == "anthropic":
                later = members_of(usage)
                usage = {
                    **members_of(self._usage),
                    **{name: value for name, value in later.items() if value is not None},
                }
            # Some servers end a stream with an empty one.
            elif not any(type(value) in (int, float) for value in members_of(usage).values()):
                return
        self._usage, self._tier, self._beside = usage, tier, beside
        if self._is_stream and not self.has_ended:
            # A stream may stay open for long, and nothing of its text is kept.
            if beside is not None:
                is_plain = _READ_BESIDE.isdisjoint(beside)
                self._beside = None if is_plain else _without_text(beside)
            # Should the process end first, this is counted.
            self.capture.open_streams[id(self)] = self

    def take_partial(self, usage: Any, model: object, *, is_partial: bool, **others: Any) -> None:
        """Keep the usage of a stream that says how many there are so far."""
        self.take(usage, model, **others)
        self._is_partial = is_partial

    def take_chunk(self, usage: Any, chunk: Any) -> None:
        """Take the usage of a completion's chunk; some servers count so far in each of them."""
        read = chunk.__dict__.get
        self.take(usage, chunk.model, read("service_tier"), read("id"))
        choices = chunk.choices
        self._is_partial = bool(choices) and _is_unfinished(choices)

    def see_last(self, chunk: Any) -> None:
        """Note that a stream of chunks has come to its end; never raises.

        Moonshot has the usage in a choice of the last one.
        """
        try:
            self._is_partial = False
            if self._usage is None:
                members = members_of(chunk)
                for choice in members.get("choices") or ():
                    usage = members_of(choice).get("usage")
                    if usage is not None:
                        self.take(usage, members.get("model"), None, members.get("id"))
        except Exception:
            note_fault()

    def take_metrics(self, numbers: dict[str, Any]) -> None:
        """Keep what a host counts of an answer; it counts if the answer itself has no usage."""
        self._metrics = numbers
        self._is_partial = False
        if self._is_stream and not self.has_ended:
            self.capture.open_streams[id(self)] = self

    def begins_stream(self) -> None:
        self._is_stream = True

    def is_whole(self) -> None:
        """Note that a stream has come to its end, so that its last counts are final."""
        self._is_partial = False

    def is_sold_by(self, provider: str) -> None:
        """Set the provider of a call whose host is known only when its response arrives."""
        if provider != self._provider:
            self._provider = provider
            self._asked = (provider, *self._asked[1:])

    def arrived(self, headers: Any, is_stream: bool) -> None:
        """Note the response's headers and latency; a stream's latency is measured at its end."""
        self._headers = headers
        self._is_stream = is_stream
        self._latency_ms = None if is_stream else (perf_counter() - self._clock) * 1e3

    def end(self) -> None:
        """Make the record, once, in the process that made the call; never raises."""
        try:
            if self.has_ended:
                return
            self.has_ended = True
            current = self.capture
            if self._is_stream:
                current.open_streams.pop(id(self), None)
            if capture.active is current:
                self._put(current)
        except Exception:
            note_fault()

    def _put(self, current: Capture) -> None:
        latency_ms = self._latency_ms
        if latency_ms is None:
            latency_ms = (perf_counter() - self._clock) * 1e3
        counts, others = self._read()
        is_plain = counts is not None and self._response_id is None
        if not is_plain and not self._counts_now(has_usage=counts is not None):
            return
        if counts is None:
            return
        model = self._answered_model or self._asked_model
        if self._provider == "aws":
            asked, answered = self._asked_model, self._answered_model
            is_named = asked is not None and _OWN_PROFILE not in asked
            model = asked if is_named else answered or asked
            # The name in an ARN, which has the number of the AWS account before it.
            model = model.rpartition("/")[2] if model and model.startswith("arn:") else model
        if model is None:
            current.miss(self.endpoint)
            return
        # "ok" is not sent. A stream that ends before its last counts was cancelled, if nothing
        # else is known.
        status = self.status or ("cancelled" if self._is_partial else None)
        *numbers, parts = counts
        if status is not None:
            parts = {**(parts or {}), "status": status}
        request_id = self._answer_id or self._id_of_request()
        # In the order of a `Record`.
        record = (self._asked, self._started_at, model, *numbers, latency_ms, request_id, parts)
        current.delivery.put(record)
        for number, reading in enumerate(others, 2):  # calls of other models within this one
            *numbers, parts = _counted(reading, None)
            provider, endpoint, tag, _, _, _, _, environment, session, _ = self._asked
            labels = (environment, session, None)
            own = (provider, endpoint, tag, None, None, None, None, *labels)
            name = (reading.model and _clean_model(reading.model)) or model
            own_id = request_id and f"{request_id}.{number}"
            current.delivery.put((own, self._started_at, name, *numbers, None, own_id, parts))

    def _read(self) -> tuple[_Counted | None, list[Reading]]:
        """Return the counts of the call, and other calls that its usage has."""
        usage = self._usage
        if usage is not None and self._tier in _USUAL_TIERS:
            if self.library == "anthropic":
                found = usual_message(usage)
            elif self.endpoint == "responses" and _has_tools(self._beside):
                found = None
            else:
                found = usual_usage(usage, self.endpoint)
            if found is not None:
                prompt, completion, cached, write, reasoning, hour = found
                parts = {"cache_write_1h_tokens": hour} if hour else None
                return (prompt, completion, cached, write, reasoning, parts), []
        for usage in (self._usage, self._metrics):
            if usage is None:
                continue
            readings = read_usage(
                usage,
                provider=self._provider,
                model=self._answered_model or self._asked_model,
                beside=self._beside,
                may_lack_output=self.endpoint in _WITHOUT_OUTPUT,
            )
            if readings:
                for path, value in readings[0].unknown.items():
                    self.capture.note_unknown(path, value)
                if odd := unknown_tier(self._tier):
                    self.capture.note_unknown(odd, 0)
                return _counted(readings[0], tier_of(self._tier)), readings[1:]
        return None, []

    def _id_of_request(self) -> str | None:
        """Return the request's ID, which is read from the headers only where nothing better is."""
        if self.request_id is None and self._headers is not None:
            is_anthropic = self.library == "anthropic"
            self.request_id = self._headers.get("request-id" if is_anthropic else "x-request-id")
        return _text_or_none(self.request_id)

    def _counts_now(self, *, has_usage: bool) -> bool:
        """Check whether there are counts that were not counted before."""
        background, response_id = self.capture.background, self._response_id
        if response_id is not None:
            created_at = (self._beside or {}).get("created_at")
            is_new = background.is_new(response_id, has_usage=has_usage, created_at=created_at)
            return is_new and has_usage
        if self._is_background:
            background.expect(self._created_id, self._started_at)
        else:
            self.capture.miss(self.endpoint)
        return False


def _is_unfinished(choices: Any) -> bool:
    """Check for a chunk of an answer that nothing has ended yet."""
    return any(members_of(each).get("finish_reason") is None for each in choices)


def _has_tools(beside: dict[str, Any] | None) -> bool:
    """Check whether an answer has calls of tools that are billed beside its tokens."""
    if beside is None:
        return False
    if beside.get("tool_usage") is not None:
        return True
    return any(members_of(item).get("type") in _TOOLS for item in beside.get("output") or ())


def _without_text(beside: dict[str, Any]) -> dict[str, Any]:
    """Return what is read of an answer beside its usage; of queries, whether they are the same."""
    kept = {name: beside[name] for name in _COUNTED_BESIDE if beside.get(name) is not None}
    for name in ("output", "tools"):
        items = map(members_of, beside.get(name) or ())
        kept[name] = [
            {
                **{each: item.get(each) for each in _KEPT_OF_ITEMS},
                "action": {"type": members_of(item.get("action")).get("type", "search")},
            }
            for item in items
            if item.get("type") in _TOOLS or item.get("svg_usage") is not None
        ]
    candidates = []
    for candidate in map(members_of, beside.get("candidates") or ()):
        found = members_of(candidate.get("grounding_metadata", candidate.get("groundingMetadata")))
        queries = found.get("web_search_queries", found.get("webSearchQueries")) or ()
        same = [str(hash(query)) for query in queries if isinstance(query, str) and query]
        candidates.append({"grounding_metadata": {"web_search_queries": same}})
    return {**kept, "candidates": candidates}


def _counted(reading: Reading, tier: str | None) -> _Counted:
    """Return a reading in the form of a record's counts."""
    parts: dict[str, Any] = dict(reading.parts)
    reasoning = parts.pop("reasoning_tokens", None)
    tier = reading.service_tier if reading.service_tier == "fast" else tier or reading.service_tier
    for name, value in (
        ("service_tier", tier),
        ("region", reading.region),
        ("units", reading.units or None),
        ("reported_usd", reading.reported_usd),
    ):
        if value is not None:
            parts[name] = value
    return (
        reading.prompt,
        reading.completion,
        reading.cached,
        reading.written,
        reasoning,
        parts or None,
    )


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _clean_model(name: str) -> str | None:
    """Return the cleaned model name, with one shared copy per name."""
    cleaned = clean_label(name)
    if cleaned == name:
        if len(_models) >= _REMEMBERED:
            _models.clear()
        _models[name] = name
    return cleaned


def begin(library: str, client: Any, options: Any) -> Call | None:
    """Return the call that is about to be made, or None if it is not counted."""
    current = capture.active
    if current is None:
        return None
    members = options.__dict__
    route = route_of(members["url"])
    method = members["method"]
    if method != "post" and route[1] is None and method.lower() != "post":
        return None
    if not current.delivery.is_started:
        current.delivery.start()
    provider = provider_of(client, library)
    return _call(current, library, provider, route, members.get("json_data"))


def begin_elsewhere(library: str, provider: str, endpoint: str | None, asked: Any) -> Call | None:
    """Return a call of a library that is made in another way; `asked` has OpenAI's names."""
    current = capture.active
    if current is None:
        return None
    if not current.delivery.is_started:
        current.delivery.start()
    return _call(current, library, provider, (endpoint, None), asked)


def _call(current: Capture, library: str, provider: str, route: Route, body: Any) -> Call:
    """Create a call from the members of its request.

    Without an `__init__`, which would double the cost.
    """
    settings = current.settings
    members = body if type(body) is dict else members_of(body)
    model = members.get("model")
    call = Call()
    call.capture = current
    call.library = library
    call._provider = provider
    call.endpoint, call._response_id = endpoint, _ = route
    call._asked_model = model if isinstance(model, str) else None
    call._is_background = members.get("background") is True
    call._answered_model = call._usage = call._metrics = call._beside = call._latency_ms = None
    call.request_id = call._tier = call.status = call._answer_id = call._created_id = None
    call._headers = None
    call._is_stream = call._is_partial = call.has_ended = call.hides_usage = False
    prefix_hash, levels = None, None
    if settings.prefix_hash and isinstance(body, dict):
        # Imported only if it is on, so the messages are never read otherwise.
        from tallystick.reading.prompts import SHORTEST_HASHED, hash_prefixes

        # A short text could be found from its hash, without the key.
        key = settings.prefix_hash_key
        prefix_hash, levels = hash_prefixes(body, key, 0 if key else SHORTEST_HASHED)
    asked = (  # in the order of an `Asked`
        provider,
        endpoint,
        settings.label if entered.get() is None else current_tag() or settings.label,
        declared_limit(members),
        prefix_hash,
        None,
        None,
        settings.environment,
        None if sessions.get() is None else current_session(),
        levels,
    )
    last = current.asked
    if asked == last:
        asked = last
    else:
        current.asked = asked
    call._asked = asked
    call._started_at, call._clock = time(), perf_counter()
    return call
