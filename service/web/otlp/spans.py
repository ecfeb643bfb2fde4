"""A span as it is read from either encoding: its identity, its times and the attributes we read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from service.errors import InvalidRequestError
from service.web.otlp.attributes import Names
from service.web.otlp.content import describe

ERROR: Final = 2  # of a span's status
TRACE_BYTES: Final = 16
SPAN_BYTES: Final = 8

Value = int | float | str


class Origin(NamedTuple):
    """What a span's resource and instrumentation scope say."""

    scope: str
    version: str
    resource: Mapping[str, Value]


class Span(NamedTuple):
    """A span with at least one attribute that is read."""

    origin: Origin
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start: int  # nanoseconds since 1970
    end: int
    is_error: bool
    values: Mapping[str, Value]


@dataclass
class Reading:
    """What is known of a request while its spans are read."""

    names: Names
    content: set[str] = field(default_factory=set)  # names of attributes with text
    # The parent of each span without attributes that are read.
    parents: dict[bytes, bytes] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `InvalidRequestError` if any attribute holds text."""
        if self.content:
            raise InvalidRequestError(describe(self.content))


def read_number(value: Value | None) -> int:
    """Return a count; 0 for what is none."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) <= 15 else 0
    if isinstance(value, float):
        return int(value) if value == value and 0 <= value < 1e15 else 0
    return value if value is not None and value > 0 else 0


def first(values: Mapping[str, Value], names: Iterable[str]) -> Value | None:
    """Return the value of the first of these attributes that is there."""
    for name in names:
        if name in values:
            return values[name]
    return None
