"""A span as it is read from either encoding: its identity, its times and the attributes we read."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from service.errors import InvalidRequestError, PayloadTooLargeError
from service.web.otlp.attributes import CONTENT, NAMESPACES, READ, SKIPPED, TEXT, USED
from service.web.otlp.content import describe, published_name

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
_TOO_MANY: Final = "The request has too many spans or attributes: lower the exporter's batch size."
# Nothing longer is a label. Each span of a scope or resource is read with what these say.
_LONGEST_SHARED: Final = 256
# Exporters send the same names in all spans; more than these are made up.
_MOST_NAMES: Final = 1_000

Value = int | float | str


class Origin(NamedTuple):
    """What a span's resource and instrumentation scope say; see `make_origin`."""

    scope: str
    version: str
    resource: Mapping[str, Value]


def make_origin(scope: str, version: str, resource: Mapping[str, Value]) -> Origin:
    """Return an origin of short texts."""
    short = {
        name: value[:_LONGEST_SHARED] if isinstance(value, str) else value
        for name, value in resource.items()
    }
    return Origin(scope[:_LONGEST_SHARED], version[:_LONGEST_SHARED], short)


class Span(NamedTuple):
    """A span with at least one attribute that is read; `usage` has its numbers of usage."""

    origin: Origin
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start: int  # nanoseconds since 1970
    end: int
    is_error: bool
    values: Mapping[str, Value]
    usage: dict[str, float]


class Reading:
    """What is known of a request while its spans are read. Nothing of it outlives the request."""

    def __init__(self, tag_attribute: str | None = None) -> None:
        self.content: set[str] = set()  # names in the rules of attributes with text
        # The parent of each span without attributes that are read.
        self.parents: dict[bytes, bytes] = {}
        # What is done with an attribute, by its name.
        self.kinds: dict[str, int] = dict(READ)
        self._left = MAX_COST
        if tag_attribute is not None and published_name(tag_attribute) is None:
            self.kinds[tag_attribute] = TEXT

    def classify(self, name: str) -> int:
        """Return what is done with a name that is not in `kinds` yet."""
        if name.startswith(NAMESPACES):
            kind = USED
        else:
            kind = SKIPPED if published_name(name) is None else CONTENT
        if len(self.kinds) < _MOST_NAMES:
            self.kinds[name] = kind
        return kind

    def spend(self, cost: int) -> None:
        """Raise `PayloadTooLargeError` if the request costs more than any may."""
        self._left -= cost
        if self._left < 0:
            raise too_many_spans()

    def check(self) -> None:
        """Raise `InvalidRequestError` if any attribute holds text."""
        if self.content:
            raise InvalidRequestError(describe(self.content))


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
