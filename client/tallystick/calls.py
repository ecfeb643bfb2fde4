"""One call of a vendor's library: what was known at its start, what is seen of its end."""

from __future__ import annotations

import os
import time
from typing import Any

from tallystick import capture
from tallystick.capture import Capture
from tallystick.labels import clean_label, current_tag
from tallystick.options import Route, declared_limit, requested_model, route_of
from tallystick.providers import provider_of
from tallystick.records import Labels, Measures, write_record
from tallystick.usage import (
    Counts,
    anthropic_counts,
    has_extra,
    member,
    openai_counts,
    overlay,
)

_OWN_PROFILE = "application-inference-profile"
_REQUEST_ID_HEADERS = {"openai": "x-request-id", "anthropic": "request-id"}


class Call:
    """Holds labels, numbers and a `usage`; of the request and the response nothing else."""

    __slots__ = (
        "_answered_model",
        "_capture",
        "_clock",
        "_declared_limit",
        "_has_ended",
        "_is_background",
        "_latency_ms",
        "_library",
        "_model",
        "_pid",
        "_prefix_hash",
        "_provider",
        "_route",
        "_started_at",
        "_tag",
        "_usage",
        "headers",
        "request_id",
    )

    def __init__(self, current: Capture, library: str, client: Any, route: Route) -> None:
        self._capture = current
        self._library = library
        self._provider = provider_of(client, library)
        self._route = route
        self._tag = current_tag() or current.settings.label
        self._pid = os.getpid()
        self._model: str | None = None
        self._declared_limit: int | None = None
        self._is_background = False
        self._prefix_hash: str | None = None
        self._usage: Any = None
        self._answered_model: object = None
        self._latency_ms: float | None = None
        self._has_ended = False
        self.headers: Any = None
        self.request_id: object = None
        self._started_at = self._clock = 0.0

    def start(self) -> None:
        self._started_at = time.time()
        self._clock = time.perf_counter()

    def read_request(self, body: Any) -> None:
        """Take from the request's own members what a record has of them."""
        self._model = requested_model(body)
        self._declared_limit = declared_limit(body)
        self._is_background = member(body, "background") is True
        if self._capture.settings.prefix_hash and isinstance(body, dict):
            # Not imported where it is off: the messages are not even looked at then.
            from tallystick.prompts import hash_prompt

            self._prefix_hash = hash_prompt(body)

    def see(self, item: Any) -> None:
        """Look at an event of a stream, or at a whole answer, for the member that has the usage."""
        members = item if isinstance(item, dict) else item.__dict__
        usage = members.get("usage")
        if usage is not None:
            self._take(item, usage)
        elif "response" in members or "message" in members or has_extra(item):
            self._see_holder(members.get("response") or members.get("message") or item)

    def _see_holder(self, holder: Any) -> None:
        usage = member(holder, "usage")
        if usage is not None:
            self._take(holder, usage)

    def _take(self, holder: Any, usage: Any) -> None:
        if isinstance(usage, (str, bytes, list)):
            return
        model = member(holder, "model")
        if model is not None:
            self._answered_model = model
        if self._library == "anthropic":
            self._usage = overlay(self._usage or {}, usage)
        elif self._usage is None or openai_counts(usage, self._route.endpoint) is not None:
            self._usage = usage  # the last that tells anything

    def arrived(self) -> None:
        """The answer is here, though nobody has read it yet."""
        self._latency_ms = (time.perf_counter() - self._clock) * 1e3

    def open(self) -> None:
        """A stream begins; should the process end first, what was seen of it is counted."""
        if not self._has_ended:
            self._latency_ms = None
            self._capture.open_streams[id(self)] = self

    def end(self) -> None:
        """Write the record, once, in the process that made the call."""
        if self._has_ended:
            return
        self._has_ended = True
        self._capture.open_streams.pop(id(self), None)
        if capture.active is not self._capture or self._pid != os.getpid():
            return
        if self._latency_ms is None:
            self.arrived()
        counts = self._counts()
        if self._is_counted_now(counts is not None) and counts is not None:
            self._put(counts)

    def _counts(self) -> Counts | None:
        if self._usage is None:
            return None
        if self._library == "anthropic":
            return anthropic_counts(self._usage)
        return openai_counts(self._usage, self._route.endpoint)

    def _is_counted_now(self, has_usage: bool) -> bool:
        background, response_id = self._capture.background, self._route.response_id
        if response_id is not None:
            return background.is_new(response_id, has_usage=has_usage)
        if not has_usage:
            if self._is_background:
                background.expect()
            else:
                self._capture.without_usage += 1
        return has_usage

    def _billed_model(self) -> str:
        """As the vendor names it, except that only the request to Bedrock names the region, which
        prices depend on. A profile of one's own there has a name that nobody has a price for.
        """
        asked, answered = self._model, clean_label(self._answered_model)
        names_region = self._provider == "aws" and asked is not None and _OWN_PROFILE not in asked
        return (asked if names_region else answered or asked) or ""

    def _put(self, counts: Counts) -> None:
        request_id = self.request_id
        if request_id is None and self.headers is not None:
            request_id = self.headers.get(_REQUEST_ID_HEADERS[self._library])
        labels = Labels(
            self._provider,
            self._billed_model(),
            self._route.endpoint,
            clean_label(request_id),
            self._tag,
            self._prefix_hash,
        )
        measures = Measures(self._started_at, self._latency_ms, self._declared_limit)
        record = write_record(labels, counts, measures)
        if record is not None:
            self._capture.delivery.put(record)


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
    current.delivery.start()
    call.start()
    return call
