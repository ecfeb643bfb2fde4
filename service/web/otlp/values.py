"""Read attributes of a span or a resource: those of both encodings have the same members."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from service.web.otlp.attributes import CONTENT, COPIES, COUNT, SKIPPED, TEXT, USED, WHOLE
from service.web.otlp.content import has_text, published_event_name, published_name
from service.web.otlp.spans import EVENT_COST, NO_COPY, NOT_READ, SpanReading, Value, read_amount

# Returns what is in a list or a map, and None for every other value.
Inner = Callable[[Any], Sequence[Any] | None]


class AttributeReader:
    """Read the attributes of one encoding. A value that is missing is None, empty or 0."""

    def __init__(self, inner: Inner) -> None:
        self._inner: Final = inner

    def read(
        self,
        attributes: Sequence[Any],
        values: dict[str, Value],
        usage: dict[str, float],
        reading: SpanReading,
    ) -> None:
        """Add the values and the numbers of usage; note text and tokens that aren't read."""
        kinds = reading.kinds
        reading.spend(len(attributes))
        for attribute in attributes:
            name = attribute.key
            kind = kinds.get(name)
            if kind is None:
                kind = reading.classify(name)
            if kind == SKIPPED or (value := attribute.value) is None:
                continue
            if kind == USED:
                # Most counts are integers that are not 0, and the rest takes longer.
                count = value.int_value
                is_plain = count and not isinstance(count, str)
                usage[name] = count if is_plain else self._used(value, reading)
            elif kind == COUNT:
                values[name] = value.int_value or value.double_value or value.string_value or 0
            elif kind == TEXT:
                is_copy = not value.string_value and name in COPIES
                has_number = is_copy and self._has_number(value, reading)
                values[name] = NO_COPY if has_number else value.string_value or ""
            elif kind == CONTENT:
                if self.holds_text(value, reading):
                    reading.note_text(published_name(name) or name)
            elif kind == WHOLE:
                values[name] = self.plain(value, reading)
            else:
                reading.note_tokens(name, self._used(value, reading))

    def read_event(self, event: str, attributes: Sequence[Any], reading: SpanReading) -> None:
        """Note the text in an event's attributes."""
        reading.spend(EVENT_COST + len(attributes))
        for attribute in attributes:
            name = published_event_name(event, attribute.key)
            if name is not None and self.holds_text(attribute.value, reading):
                reading.note_text(name)

    def plain(self, value: Any, reading: SpanReading) -> Any:
        """Return a value that differs where two attributes do."""
        if value is None:
            return None
        if value.string_value:  # as most are
            return value.string_value
        inner = self._inner(value)
        if inner is not None:
            reading.spend(1 + len(inner))
            members = (value.kvlist_value and value.kvlist_value.values) or ()
            keys = [each.key for each in members]
            return keys, [self.plain(each, reading) for each in inner]
        scalars = (value.int_value, value.double_value, value.bytes_value)
        return next(filter(None, scalars), value.bool_value)

    def _used(self, value: Any, reading: SpanReading) -> float:
        number = value.int_value or value.double_value or value.string_value or 0
        if isinstance(number, str):
            return read_amount(number)
        return number or (NOT_READ if self._has_number(value, reading) else 0)

    def _has_number(self, value: Any, reading: SpanReading) -> bool:
        """Check for a list or a map with a number in it, however deep."""
        inner = self._inner(value)
        if inner is None:
            return False
        reading.spend(1 + len(inner))
        return any(
            each is not None
            and (
                _amount(each.int_value)
                or _amount(each.double_value)
                or self._has_number(each, reading)
            )
            for each in inner
        )

    def holds_text(self, value: Any, reading: SpanReading) -> bool:
        """Check for text in a value, or in a list or a map, however deep."""
        if value is None:
            return False
        if value.string_value:
            return has_text(value.string_value)
        inner = self._inner(value)
        if inner is None:
            return bool(value.bytes_value)
        reading.spend(1 + len(inner))
        return any(self.holds_text(each, reading) for each in inner)


def _amount(value: float | str | None) -> float:
    return read_amount(value) if isinstance(value, str) else value or 0
