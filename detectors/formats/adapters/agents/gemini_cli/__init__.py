"""Gemini CLI sessions: one JSON object with messages, or a line per message.

Fields: `~/.gemini/tmp/<project>/chats/session-*.json` and `.jsonl`, as
https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/services/chatRecordingService.ts
writes them. `tokens.input` includes `cached`; `thoughts` and `tool` are apart, as in the API's
`usageMetadata`. A message is written again when its tokens are known, and all of them when a
session is resumed, with the same ID.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import MESSAGE, NO_USAGE, Sighting
from detectors.formats.adapters.rows import Row
from detectors.formats.json_logs.usage.reader import read_usage

_TYPES: Final = ("user", "gemini", "info", "error", "warning")


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    if row.has("sessionId"):
        state["session"] = row.get("sessionId")
    changed = row.inner("$set")  # a checkpoint, which may have all messages so far
    holder = changed if changed.has("messages") else row
    messages = holder.items("messages") if holder.has("messages") else [row]
    session = state.get("session")
    for message in messages:
        if not message.has("tokens"):
            yield NO_USAGE
            continue
        yield Sighting(
            readings=read_usage(message.get("tokens"), dialect="gemini-cli"),
            moments=(message.get("timestamp"),),
            models=(message.get("model"),),
            providers=("google",),
            ids=(message.get("id"),),
            tags=(session,),
            session=session,
            origin=MESSAGE,
        )


_MESSAGE: Final = "id timestamp type model tokens*"

ADAPTER: Final = Adapter(
    title="Gemini CLI sessions",
    signs=("projectHash", "tokens", "$rewindTo", "$set"),
    recognizes=lambda row: (
        any(name in row for name in ("projectHash", "$rewindTo", "$set"))
        or ("tokens" in row and "timestamp" in row and row.get("type") in _TYPES)
    ),
    read=_read,
    allowed=members(
        f"sessionId projectHash startTime lastUpdated kind $rewindTo {_MESSAGE} "
        f"messages({_MESSAGE}) $set(sessionId lastUpdated kind messages({_MESSAGE}))"
    ),
)
