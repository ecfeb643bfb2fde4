"""What the answer to a request says of the spans that don't count, or may not count as sent.

Its texts are ours: of a caller's, only names of attributes that look like names.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from service.web.otlp.content import COLLECTOR, DROP, Switch
from service.web.otlp.requests import Calls

_SHOWN: Final = 5
_ASSUMED: Final = (
    "We don't know whether the input tokens of some spans include the cached ones. We assume that"
    " they do, unless a span has more cached than input tokens."
)


def describe(calls: Calls) -> Iterator[str]:
    """Yield a sentence for each thing that the sender should know."""
    for switch, (count, names) in calls.texts.items():
        yield _describe_text(switch, count, names)
    if calls.rejected:
        yield (
            f"{_spans(calls.rejected)} without a model, trace ID or span ID, or with values beyond"
            f" the limits of a record, {_were(calls.rejected)} rejected."
        )
    if calls.repeated:
        yield (
            f"The usage of {_spans(calls.repeated)} doesn't count: other spans of the same calls"
            " have it."
        )
    if calls.agents:
        yield (
            f"The usage of {_spans(calls.agents)} around calls counts only if no call inside has"
            " any."
        )
    if calls.unnamed:
        yield f"The usage of {_spans(calls.unnamed)} around calls doesn't count: no model is named."
    if calls.unread:
        yield (
            f"{_spans(calls.unread)} with tokens only in attributes that we don't read"
            f"{_listed(calls.unread_names)} {_were(calls.unread)} not counted."
        )
    if calls.assumed:
        yield _ASSUMED
    if calls.unknown:
        yield (
            f"Some spans have usage attributes that we don't know{_listed(calls.unknown)}. Their"
            " cost may be too low."
        )


def _describe_text(switch: Switch | None, count: int, names: set[str]) -> str:
    of = f" of {switch.scope.rstrip('.*/')}" if switch else ""
    despite = sorted(names & set(switch.despite)) if switch else []
    way = COLLECTOR
    if switch and switch.switch and len(despite) < len(names):
        other = f"and {DROP.format(', '.join(despite))}" if despite else f"or {way}"
        way = f"turn it off with {switch.switch}, {other}"
    shown = ", ".join(sorted(names)[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{_spans(count)}{of} {_were(count)} rejected because of text in {shown}{more}: {way}."


def _spans(count: int) -> str:
    return f"{count} span" if count == 1 else f"{count} spans"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _listed(names: Iterable[str]) -> str:
    """Return the names that are names: any other could be a text."""
    every = sorted(names)
    shown = [name for name in every if "*" not in name]
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return f": {', '.join(shown[:_SHOWN])}{more}" if shown else ""
