"""GitHub Copilot's OpenTelemetry as a file: a line per span, event or metric.

Copilot CLI writes it with `COPILOT_OTEL_FILE_EXPORTER_PATH`
(https://docs.github.com/en/copilot/reference/enterprise-administrators/opentelemetry-reference).
A span `chat` is one call, with the names of OpenTelemetry's conventions, by which the input has the
cache; the lines are as
https://github.com/ryoppippi/ccusage/blob/main/rust/crates/ccusage/src/adapter/copilot/loader.rs
has them. Spans of agents, events and metrics repeat the counts of these.
"""

from collections.abc import Iterator
from typing import Any, Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import MESSAGE, REPEATED, Sighting, milliseconds_between
from detectors.formats.adapters.rows import Row
from detectors.formats.json_logs.usage.reader import read_usage

SUBSCRIPTION: Final = "copilot"
_HOST: Final = "github"
_USAGE: Final = "gen_ai.usage."


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    attributes = row.inner("attributes")
    if attributes.get("gen_ai.operation.name") != "chat" or "spanId" not in row:
        yield REPEATED
        return
    usage = {name: attributes.get(name) for name in attributes.names() if name.startswith(_USAGE)}
    begun, ended = _nanoseconds(row.get("startTime")), _nanoseconds(row.get("endTime"))
    session, host = attributes.get("gen_ai.conversation.id"), attributes.get("gen_ai.provider.name")
    yield Sighting(
        readings=read_usage(usage, dialect="spans", leaves_out=()),
        moments=(begun, ended),
        models=(attributes.get("gen_ai.response.model"), attributes.get("gen_ai.request.model")),
        # Other hosts bill a key of one's own, or another program wrote the line.
        providers=(host if host and host != _HOST else SUBSCRIPTION,),
        ids=(attributes.get("gen_ai.response.id"), f"{row.get('traceId')}:{row.get('spanId')}"),
        tags=(session,),
        session=session,
        latency_ms=milliseconds_between(begun, ended),
        origin=MESSAGE,
    )


def _nanoseconds(value: Any) -> int | None:
    """Return a time as OpenTelemetry for JavaScript has it: seconds and nanoseconds."""
    if not (isinstance(value, list) and len(value) == 2):
        return None
    seconds, rest = value
    is_time = type(seconds) is int and type(rest) is int
    return seconds * 1_000_000_000 + rest if is_time else None


ADAPTER: Final = Adapter(
    title="Copilot's OpenTelemetry files",
    signs=("spanId", "hrTime"),
    recognizes=lambda row: "attributes" in row and ("spanId" in row or "hrTime" in row),
    read=_read,
    allowed=members(
        "type traceId spanId parentSpanId kind startTime endTime hrTime status(code) "
        "attributes(gen_ai.operation.name gen_ai.provider.name gen_ai.request.model "
        "gen_ai.response.model gen_ai.response.id gen_ai.conversation.id)"
    ),
)
