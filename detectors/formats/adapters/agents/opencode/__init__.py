"""opencode sessions: a file per message, or an export with all of them.

Fields: `~/.local/share/opencode/storage/message/<session>/<message>.json` and `opencode export`, as
https://github.com/anomalyco/opencode/blob/dev/packages/opencode/src/session/session.ts counts them
(`getUsage`). `tokens.input` excludes `cache.read` and `cache.write`. `reasoning` is charged beside
`output`; a `total` that leaves no room for it says that `output` includes it. A fork copies
messages under new IDs, with the times of the original.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import NO_USAGE, Origin, Sighting, milliseconds_between
from detectors.formats.adapters.rows import Row
from detectors.formats.adapters.usage import read_usage


def _recognizes(row: Row) -> bool:
    if "sessionID" in row and ("role" in row or "modelID" in row):
        return True
    return "info" in row and "messages" in row


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    messages = [item.inner("info") for item in row.items("messages")] if "info" in row else [row]
    for message in messages:
        is_answer = message.get("role") == "assistant" and message.has("tokens")
        yield _call(message) if is_answer else NO_USAGE


def _call(message: Row) -> Sighting:
    tokens, times = message.inner("tokens"), message.inner("time")
    begun, session = times.get("created"), message.get("sessionID")
    return Sighting(
        readings=read_usage(message.get("tokens"), dialect="opencode"),
        moments=(begun,),
        models=(message.get("modelID"),),
        providers=(message.get("providerID"),),
        # A fork gives messages new IDs; their times, to the millisecond, stay.
        ids=(f"opencode:{begun}:{times.get('completed')}:{tokens.get('output')}",),
        tags=(session,),
        session=session,
        endpoint=message.first("agent", "mode"),
        latency_ms=milliseconds_between(begun, times.get("completed")),
        reported_usd=message.get("cost"),
        origin=Origin(name=f"opencode:{begun}:{message.get('modelID')}"),
    )


_INFO: Final = (
    "id sessionID role parentID modelID providerID mode agent finish variant cost "
    "time(created completed) tokens*"
)

ADAPTER: Final = Adapter(
    title="opencode sessions",
    signs=("sessionID", "info"),
    recognizes=_recognizes,
    read=_read,
    allowed=members(
        f"{_INFO} info(id projectID version time(created updated)) messages(info({_INFO}))"
    ),
)
