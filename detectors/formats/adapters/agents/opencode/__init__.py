"""opencode sessions: its database, a file per message, or an export with all of them.

Fields: the tables `message` and, of version 2, `session_message` of
`~/.local/share/opencode/opencode.db`, whose `data` has a message without its IDs; of earlier
versions `~/.local/share/opencode/storage/message/*/*.json`; and `opencode export`, as
https://github.com/anomalyco/opencode/blob/dev/packages/opencode/src/session/session.ts counts them
(`getUsage`). `tokens.input` excludes `cache.read` and `cache.write`. `reasoning` is charged beside
`output`; a `total` that leaves no room for it says that `output` includes it. A fork copies
messages under new IDs, with the times of the original.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, Sums, any_of, members
from detectors.formats.adapters.calls import (
    NO_USAGE,
    REPEATED,
    Origin,
    Sighting,
    milliseconds_between,
)
from detectors.formats.adapters.labels import route_of
from detectors.formats.adapters.rows import Row
from detectors.formats.json_logs.usage.reader import read_usage


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    messages = [row]
    if "info" in row:
        messages = [item.inner("info") for item in row.items("messages")]
    elif row.has("data"):
        messages = [row.inner("data")]
    if "message_id" in row:
        yield REPEATED  # a part of a message
        return
    for message in messages:
        is_answer = "assistant" in (message.get("role"), row.get("type"))
        # Kilo Code has put "legacy" and no counts into messages of its version for editors.
        if not is_answer or not message.has("tokens") or message.get("providerID") == "legacy":
            yield NO_USAGE
            continue
        tokens, times = message.inner("tokens"), message.inner("time")
        begun, session = times.get("created"), message.get("sessionID") or row.get("session_id")
        named = message.inner("model")  # of version 2
        model = message.get("modelID") or named.get("id")
        yield Sighting(
            readings=read_usage(message.get("tokens"), dialect="opencode"),
            moments=(begun,),
            models=(model,),
            providers=(message.get("providerID"), named.get("providerID")),
            # A fork gives messages new IDs; their times, to the millisecond, stay.
            ids=(f"opencode:{begun}:{times.get('completed')}:{tokens.get('output')}",),
            tags=(route_of(message.inner("path").first("root", "cwd")), session),
            session=session,
            endpoint=message.first("agent", "mode"),
            latency_ms=milliseconds_between(begun, times.get("completed")),
            reported_usd=message.get("cost"),
            origin=Origin(name=f"opencode:{begun}:{model}"),
        )


_INFO: Final = (
    "id sessionID role parentID modelID providerID mode agent finish variant cost "
    "path(root cwd) time(created completed) model(id providerID variant) tokens*"
)

ADAPTER: Final = Adapter(
    title="opencode sessions",
    signs=("sessionID", "info", "modelID", "time_created"),
    recognizes=lambda row: (
        "role" in row or "modelID" in row
        if "modelID" in row or "sessionID" in row
        else ("session_id" in row and "time_created" in row and "data" in row)
        or ("info" in row and "messages" in row)
    ),
    read=_read,
    allowed=members(
        f"{_INFO} info(id projectID version time(created updated)) messages(info({_INFO})) "
        f"session_id type seq time_created time_updated data({_INFO})"
    ),
    sums=Sums(
        what="opencode's sessions",
        signs=any_of("cost tokens_input tokens_output"),
        instead="read its messages instead",
    ),
)
