"""A span as it is read from either encoding: its identity, its times and the attributes we read."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from service.errors import PayloadTooLargeError
from service.web.otlp.attributes import (
    CONTENT,
    COPIES,
    NAMESPACES,
    OTHER,
    READ,
    SKIPPED,
    TEXT,
    USAGE,
    USED,
    counts_tokens,
)
from service.web.otlp.content import Switch, find_switch, published_name

_MOST: Final = 10**15  # larger numbers count nothing
_MOST_DIGITS: Final = 19  # of an int64
_DECIMAL: Final = re.compile(r"\d{1,19}\.?\d{0,19}(?:[eE][+-]?\d{1,2})?")
# What stands for numbers of usage in a list or a map, which are not read and so are unknown.
NOT_READ: Final = float("nan")
NO_COPY: Final = "?"  # the same for a copy of a usage
ERROR: Final = 2  # of a span's status
TRACE_BYTES: Final = 16
SPAN_BYTES: Final = 8
# What a request may cost: reading costs processor time by what is in it, not by its bytes.
MAX_COST: Final = 600_000
SPAN_COST: Final = (
    25  # also of a scope and a resource; an attribute, and each of its values, costs 1
)
EVENT_COST: Final = 3
FIELD_COST: Final = 3  # of a large span, which is cut into its fields
_TOO_MANY: Final = (
    "The request has too many spans, log records or attributes: lower the exporter's batch size."
)
# Nothing longer is a label. Each span of a scope or resource is read with what these say.
_LONGEST_SHARED: Final = 256
# Exporters send the same names in all spans; more than these are made up.
_MOST_NAMES: Final = 1_000
_MOST_SHOWN: Final = 20
# Any other name could be a text.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,79}")

Value = int | float | str


class SpanOrigin(NamedTuple):
    """What a span's resource and instrumentation scope say."""

    scope: str
    version: str
    resource: Mapping[str, Value]


class OtlpSpan(NamedTuple):
    """A span with at least one attribute that is read; `usage` has its numbers of usage."""

    origin: SpanOrigin
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start: int  # nanoseconds since 1970
    end: int
    is_error: bool
    values: Mapping[str, Value]
    usage: dict[str, float]


class SpanReading:
    """What is known of a request while its spans are read. Nothing of it outlives the request."""

    def __init__(self, tag_attribute: str | None = None) -> None:
        # Whether anything below was noted of the span that is being read.
        self.is_noted = False
        self.content: set[str] = set()  # published names of its attributes with text
        self.other: set[str] = set()  # names of its counts of tokens that we don't read
        # The spans with text, by what turns it off: how many, and their published names.
        self.rejected: dict[Switch | None, tuple[int, set[str]]] = {}
        # The spans with tokens only in attributes that we don't read, and their names.
        self.unread, self.unread_names = 0, set[str]()
        # The parent of each span without attributes that are read.
        self.parents: dict[bytes, bytes] = {}
        # What is done with an attribute, by its name.
        self.kinds: dict[str, int] = dict(READ)
        self._of_resource: frozenset[str] = frozenset()
        # The scope of the last span with text.
        self._scope, self._switch = "", find_switch("")
        self._left = MAX_COST
        if tag_attribute is not None and published_name(tag_attribute) is None:
            self.kinds[tag_attribute] = TEXT

    def classify(self, name: str) -> int:
        """Return what is done with a name that is not in `kinds` yet."""
        if name.startswith(NAMESPACES):
            kind = USED
        elif published_name(name) is not None:
            kind = CONTENT
        else:
            kind = OTHER if counts_tokens(name) else SKIPPED
        if len(self.kinds) < _MOST_NAMES:
            self.kinds[name] = kind
        return kind

    def spend(self, cost: int) -> None:
        """Raise `PayloadTooLargeError` if the request costs more than any may."""
        self._left -= cost
        if self._left < 0:
            raise too_many_spans()

    def note_text(self, name: str) -> None:
        self.content.add(name)
        self.is_noted = True

    def note_tokens(self, name: str, value: float) -> None:
        if value > 0:
            self.is_noted = True
            if len(self.other) < _MOST_SHOWN:
                self.other.add(name)

    def note_unread(self, names: Iterable[str]) -> None:
        """Note a span whose tokens are all in attributes that we don't read, if it has any."""
        shown = {name if _NAME.fullmatch(name) else "*" for name in names}
        self.unread += bool(shown)
        if len(self.unread_names) < _MOST_SHOWN:
            self.unread_names |= shown

    def begin_resource(self) -> None:
        """Hold the text of a resource's own attributes against each of its spans."""
        self._of_resource, self.content, self.other = frozenset(self.content), set(), set()
        self.is_noted = bool(self._of_resource)

    def make_origin(self, scope: str, version: str, resource: Mapping[str, Value]) -> SpanOrigin:
        """Return an origin of short texts."""
        short = {
            name: value[:_LONGEST_SHARED] if isinstance(value, str) else value
            for name, value in resource.items()
        }
        return SpanOrigin(scope[:_LONGEST_SHARED], version[:_LONGEST_SHARED], short)

    def finish(self, span: OtlpSpan) -> OtlpSpan:
        """Return a span of which something was noted; of one with text, only its place."""
        content = self.content | self._of_resource
        if content:
            if span.origin.scope != self._scope:
                self._scope, self._switch = span.origin.scope, find_switch(span.origin.scope)
            switch = self._switch
            count, names = self.rejected.setdefault(switch, (0, set()))
            names |= content
            self.rejected[switch] = count + 1, names
            span = span._replace(values={}, usage={})
        elif USAGE.isdisjoint(span.usage) and COPIES.isdisjoint(span.values):
            self.note_unread(self.other)
        self.content, self.other, self.is_noted = set(), set(), bool(self._of_resource)
        return span


def too_many_spans() -> PayloadTooLargeError:
    return PayloadTooLargeError(_TOO_MANY)


def read_number(value: Value | None) -> int:
    """Return a count; 0 for what is none."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= 15 else 0
    if isinstance(value, float):
        return int(value) if value == value and 0 <= value < _MOST else 0
    return value if value is not None and 0 < value < _MOST else 0


def read_amount(value: str) -> float:
    """Return a number that is written as a text; 0 for any other text."""
    digits = value.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
        return int(value)
    return float(value) if digits.isascii() and _DECIMAL.fullmatch(digits) else 0


def first(values: Mapping[str, Value], names: Iterable[str]) -> Value | None:
    """Return the value of the first of these attributes that is there."""
    for name in names:
        if name in values:
            return values[name]
    return None
