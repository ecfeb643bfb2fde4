"""Qwen Code sessions: a line per event, with the usage of Gemini's API.

Fields: `~/.qwen/projects/<project>/chats/<session>.jsonl`, as
https://github.com/QwenLM/qwen-code/blob/main/packages/core/src/services/chatRecordingService.ts
writes them: `usageMetadata` beside `message`, and a `uuid` for each line. A resumed session keeps
the lines and their IDs.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import MESSAGE, NO_USAGE, Sighting
from detectors.formats.adapters.labels import route_of
from detectors.formats.adapters.rows import Row
from detectors.formats.json_logs.usage.reader import read_usage


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    if not row.has("usageMetadata"):
        yield NO_USAGE
        return
    session, model = row.get("sessionId"), row.get("model")
    yield Sighting(
        readings=read_usage(row.get("usageMetadata"), model=model),
        moments=(row.get("timestamp"),),
        models=(model,),
        providers=("qwen",),
        ids=(row.get("uuid"),),
        tags=(route_of(row.get("cwd")), session),
        session=session,
        origin=MESSAGE,
    )


ADAPTER: Final = Adapter(
    title="Qwen Code sessions",
    signs=("usageMetadata",),
    recognizes=lambda row: "uuid" in row and "sessionId" in row and "model" in row,
    read=_read,
    allowed=members(
        "uuid parentUuid sessionId timestamp cwd type subtype version model usageMetadata* "
        "message(role) contextWindowSize"
    ),
)
