"""Claude Code sessions: a line per event, and several snapshots of each message.

The lines are those of `~/.claude/projects/*/*.jsonl`; `message.usage` is the usage of the Messages
API (https://docs.anthropic.com/en/api/messages). A resumed or forked session repeats the lines of
the earlier session under a new `sessionId`, or name it in `forkedFrom`. The message's ID and
`requestId` stay the same, and count once; some proxies give every message the same ID.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import NO_USAGE, Origin, Sighting
from detectors.formats.adapters.labels import SUBAGENT, id_of, route_of
from detectors.formats.adapters.rows import Row
from detectors.formats.json_logs.usage.reader import read_usage

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SUBSCRIPTION: Final = "claude-code"
# Messages of Bedrock and Vertex AI, which no plan includes.
METERED: Final = ("msg_bdrk_", "msg_vrtx_")
_EVENT: Final = ("sessionId", "timestamp", "type")


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    message = row.inner("message")
    if not message.has("usage"):
        yield NO_USAGE
        return
    forked = row.inner("forkedFrom").get("sessionId")  # of a line that was copied
    session, name = forked or row.get("sessionId"), message.get("id")
    asked = row.get("requestId")
    # An agent may change its folder; the project is where its session began.
    folders = state.setdefault("folders", {})
    route = folders.setdefault(id_of(session), route_of(row.get("cwd")))
    route = route or name_of(session)
    if route and row.get("isSidechain") is True:
        route += SUBAGENT
    yield Sighting(
        readings=read_usage(message.get("usage"), model=message.get("model")),
        moments=(row.get("timestamp"), row.get("ts")),
        models=(message.get("model"),),
        providers=(SUBSCRIPTION if session is not None else "anthropic",),
        ids=(name, asked),
        tags=(row.get("tag"), route),
        session=session,
        service_tier=message.get("service_tier"),
        billing="metered" if isinstance(name, str) and name.startswith(METERED) else None,
        origin=Origin(asked=asked if isinstance(asked, str) else ""),
    )


def name_of(session: Any) -> str | None:
    """Return the name of a session without a project, unless it could be text."""
    return session if isinstance(session, str) and _UUID.fullmatch(session) else None


ADAPTER: Final = Adapter(
    title="Claude Code sessions",
    signs=("message", "sessionId", "leafUuid"),
    recognizes=lambda row: (
        "leafUuid" in row
        or row.inner("message").has("usage")
        or all(name in row for name in _EVENT)
    ),
    read=_read,
    allowed=members(
        "type timestamp ts cwd sessionId uuid parentUuid isSidechain agentId userType version "
        "requestId tag leafUuid isMeta isApiErrorMessage forkedFrom(sessionId messageUuid) "
        "message(id type role model stop_reason stop_sequence usage*)"
    ),
    # What a sub-agent or a compaction has read in all.
    repeats=frozenset(("toolUseResult", "compactMetadata")),
)
