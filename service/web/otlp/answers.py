"""What the answer to a request says of the spans that don't count, or may not count as sent.

Its texts are ours: of a caller's, only names of attributes that look like names.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from service.models.imports.span_notices import OF_LOGS, OF_METRICS, NoticedSpans
from service.web.otlp.agent_metrics import MetricReading
from service.web.otlp.content import COLLECTOR, DROP
from service.web.otlp.requests import Calls

_SHOWN: Final = 5
_UNUSED: Final = (
    "Tallystick counts the answers that Claude Code, Codex and Gemini CLI log. {} ignored."
)
_UNUSED_METRICS: Final = (
    "Tallystick reads the token totals of Claude Code, Codex, Gemini CLI and Copilot, to compare"
    " them with calls. Other metrics are ignored."
)
_ASSUMED: Final = (
    "We don't know whether the input tokens of some spans include the cached ones. We assume that"
    " they do, unless a span has more cached than input tokens."
)


def describe(calls: Calls) -> Iterator[str]:
    """Yield a sentence for each thing that the sender should know."""
    yield from map(str, list_notices(calls))
    if calls.of_logs and calls.unused and not calls.calls:
        is_one = calls.unused == 1
        said = (
            "log record isn't a model's answer and was"
            if is_one
            else ("log records aren't models' answers and were")
        )
        yield _UNUSED.format(f"{calls.unused:,} {said}")
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
    if calls.assumed:
        yield _ASSUMED
    if calls.unknown:
        yield (
            f"Some spans have usage attributes that we don't know{_listed(calls.unknown)}. Their"
            " cost may be too low."
        )


def describe_metrics(reading: MetricReading) -> str:
    """Return what the sender of metrics should know."""
    said = [*map(str, list_metric_notices(reading))]
    if reading.unused and not (reading.measured or said):
        said.append(_UNUSED_METRICS)
    return " ".join(said)


def list_metric_notices(reading: MetricReading) -> Iterator[NoticedSpans]:
    """Yield what the account should know, too: the data points that were rejected, and why."""
    for reason, count in sorted(reading.refused.items()):
        yield NoticedSpans(f"{OF_METRICS}{reason}", count, "", f"rejected: {reason}.")


def list_notices(calls: Calls) -> Iterator[NoticedSpans]:
    """Yield what the account should know, too: the spans whose usage counts nowhere."""
    kind = OF_LOGS if calls.of_logs else ""
    for switch, (count, names) in calls.texts.items():
        of = f" of {switch.scope.rstrip('.*/')}" if switch else ""
        despite = sorted(names & set(switch.despite)) if switch else []
        way = COLLECTOR
        if switch and switch.switch and len(despite) < len(names):
            other = f"and {DROP.format(', '.join(despite))}" if despite else f"or {way}"
            way = f"turn it off with {switch.switch}, {other}"
        shown = ", ".join(sorted(names)[:_SHOWN])
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        verdict = f"rejected because of text in {shown}{more}: {way}."
        yield NoticedSpans(f"{kind}text{of}", count, of, verdict)
    if calls.large:
        subject = " larger than 64 KiB"
        yield NoticedSpans(
            f"{kind}large", calls.large, subject, "rejected: no count takes so much."
        )
    if calls.rejected:
        named = "" if calls.of_logs else ", trace ID or span ID"
        subject = f" without a model{named}, or with values beyond the limits of a record,"
        yield NoticedSpans(f"{kind}beyond limits", calls.rejected, subject, "rejected.")
    if calls.unnamed:
        subject = " with the usage of calls, but without a model,"
        yield NoticedSpans("without model", calls.unnamed, subject, "not counted.")
    if calls.unread:
        subject = " with tokens only in attributes that we don't read"
        subject += _listed(calls.unread_names)
        yield NoticedSpans("unread", calls.unread, subject, "not counted.")


def _spans(count: int) -> str:
    return f"{count} span" if count == 1 else f"{count} spans"


def _listed(names: Iterable[str]) -> str:
    """Return the names that are names: any other could be a text."""
    every = sorted(names)
    shown = [name for name in every if "*" not in name]
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return f": {', '.join(shown[:_SHOWN])}{more}" if shown else ""
