"""One call of a vendor's library: what was known at its start, what is seen of its end."""

from __future__ import annotations

import time
from sys import intern
from typing import Any

from tallystick import capture
from tallystick.capture import Capture
from tallystick.labels import clean_label, current_tag
from tallystick.options import Route, declared_limit, route_of
from tallystick.providers import provider_of
from tallystick.records import Record
from tallystick.usage import Counts, anthropic_counts, members_of, openai_counts, overlay

_OWN_PROFILE = "application-inference-profile"
# What a named tuple does by itself takes longer, for it goes through the names.
_new = tuple.__new__
_REQUEST_ID_HEADERS = {"openai": "x-request-id", "anthropic": "request-id"}


class Call:
    """Holds labels and numbers; of the request and the response nothing else."""

    __slots__ = (
        "_answered_model",
        "_asked_model",
        "_capture",
        "_clock",
        "_counts",
        "_declared_limit",
        "_has_ended",
        "_headers",
        "_is_background",
        "_is_open",
        "_latency_ms",
        "_library",
        "_life",
        "_prefix_hash",
        "_provider",
        "_route",
        "_started_at",
        "_tag",
        "_told",
        "request_id",
    )

    def __init__(self, current: Capture, library: str, client: Any, route: Route) -> None:
        self._capture = current
        self._life = current.life
        self._library = library
        self._provider = provider_of(client, library)
        self._route = route
        self._tag = current_tag() or current.settings.label
        self._prefix_hash: str | None = None
        self._answered_model: str | None = None
        self._counts: Counts | None = None
        self._told: dict[str, int] | None = None
        self._latency_ms: float | None = None
        self._is_open = self._has_ended = False
        self._headers: Any = None
        self.request_id: object = None

    def read_request(self, body: Any) -> None:
        """Take from the request's own members what a record has of them."""
        members = members_of(body)
        model = members.get("model")
        self._asked_model = model if isinstance(model, str) else None
        self._declared_limit = declared_limit(members)
        self._is_background = members.get("background") is True
        if self._capture.settings.prefix_hash and isinstance(body, dict):
            # Not imported where it is off: the messages are not even looked at then.
            from tallystick.prompts import hash_prompt

            self._prefix_hash = hash_prompt(body)

    def start(self) -> None:
        self._started_at = time.time()
        self._clock = time.perf_counter()

    def see(self, item: Any) -> None:
        """Look at an event of a stream, or at a whole answer, for the member that has the usage."""
        members = members_of(item)
        usage = members.get("usage")
        if usage is None:
            holder = members.get("response")
            members = members_of(members.get("message") if holder is None else holder)
            usage = members.get("usage")
        if usage is not None:
            self._take(usage, members.get("model"))

    def _take(self, usage: Any, model: object) -> None:
        if type(model) is str:
            self._answered_model = intern(model)  # each answer brings a copy of its own
        if self._library == "openai":
            # The last that tells anything counts.
            self._counts = openai_counts(usage, self._route.endpoint) or self._counts
        elif self._is_open:
            self._told = overlay(self._told, usage)
        else:
            self._counts = anthropic_counts(usage)

    def arrived(self, headers: Any) -> None:
        """The answer is here, though nobody has read it yet."""
        self._headers = headers
        self._latency_ms = (time.perf_counter() - self._clock) * 1e3

    def open(self, headers: Any) -> None:
        """A stream begins; should the process end first, what was seen of it is counted."""
        if not self._has_ended:
            self._headers = headers
            self._latency_ms = None
            self._is_open = True
            self._capture.open_streams[id(self)] = self

    def end(self) -> None:
        """Make the record, once, in the process that made the call."""
        if self._has_ended:
            return
        self._has_ended = True
        current = self._capture
        if self._is_open:
            current.open_streams.pop(id(self), None)
        if capture.active is not current or self._life is not current.life:
            return
        if self._latency_ms is None:
            self._latency_ms = (time.perf_counter() - self._clock) * 1e3
        counts = self._counts if self._told is None else anthropic_counts(self._told)
        if counts is None or self._route.response_id is not None:
            counts = self._counted_now(counts)
        if counts is not None:
            self._put(counts)

    def _counted_now(self, counts: Counts | None) -> Counts | None:
        """None where nothing was told, or where this was counted before."""
        background, response_id = self._capture.background, self._route.response_id
        if response_id is not None:
            is_new = background.is_new(response_id, has_usage=counts is not None)
            return counts if is_new else None
        if self._is_background:
            background.expect()
        else:
            self._capture.without_usage += 1
        return None

    def _put(self, counts: Counts) -> None:
        model = self._billed_model()
        request_id, headers = self.request_id, self._headers
        if request_id is None and headers is not None:
            request_id = headers.get(_REQUEST_ID_HEADERS[self._library])
        if model is not None:
            record = (
                self._started_at,
                self._provider,
                model,
                *counts,
                self._latency_ms,
                self._route.endpoint,
                request_id if isinstance(request_id, str) else None,
                self._tag,
                self._declared_limit,
                self._prefix_hash,
            )
            self._capture.delivery.put(_new(Record, record))

    def _billed_model(self) -> str | None:
        """As the vendor names it, except that only the request to Bedrock names the region, which
        prices depend on. A profile of one's own there has a name that nobody has a price for.
        """
        asked, answered = self._asked_model, clean_label(self._answered_model)
        names_region = self._provider == "aws" and asked is not None and _OWN_PROFILE not in asked
        return asked if names_region else answered or asked


def begin(library: str, client: Any, options: Any) -> Call | None:
    """The call that is about to be made; None where it is none to count."""
    current = capture.active
    if current is None:
        return None
    members = options.__dict__
    route = route_of(members["url"])
    if route.response_id is None and members["method"].lower() != "post":
        return None
    call = Call(current, library, client, route)
    call.read_request(members.get("json_data"))
    if not current.delivery.is_started:
        current.delivery.start()
    call.start()
    return call
