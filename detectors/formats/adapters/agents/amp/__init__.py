"""Amp threads: one JSON object with messages, and in some versions a ledger of its requests.

Amp's own code is closed. Fields: `~/.local/share/amp/threads/T-*.json`, as
https://github.com/ryoppippi/ccusage/tree/main/rust/crates/ccusage/src/adapter/amp reads them:
`messages[].usage`, whose `inputTokens` leave out the cache, and `usageLedger.events[]` with input,
output and the message that was answered (`toMessageId`), which has the cache. A thread that
continues another may begin with its messages.
"""

from collections.abc import Iterator
from typing import Any, Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import NO_USAGE, Origin, Sighting
from detectors.formats.adapters.labels import route_of
from detectors.formats.adapters.rows import NOTHING, Row
from detectors.formats.json_logs.usage.reader import read_usage

_COPIES: Final = ("maxInputTokens", "totalInputTokens", "credits")


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    trees = row.inner("env", "initial").items("trees")
    folder, thread = next((tree.get("uri") for tree in trees), None), row.get("id")
    answers = [message for message in row.items("messages") if message.has("usage")]
    by_id = {str(answer.get("messageId")): answer for answer in answers}
    calls: list[tuple[Row, Row]] = [
        (event, by_id.get(str(event.get("toMessageId")), NOTHING))
        for event in row.inner("usageLedger").items("events")
    ]
    if not answers and not calls:
        yield NO_USAGE
    for event, answer in calls or [(NOTHING, answer) for answer in answers]:
        usage = answer.inner("usage")
        # A thread that continues another gives messages new IDs; their times stay.
        at = event.get("timestamp") or usage.get("timestamp") or answer.get("timestamp")
        model = event.get("model") or usage.get("model")
        name = f"amp:{at}:{model}"
        yield Sighting(
            readings=read_usage(_counts(event, usage), dialect="bedrock"),
            moments=(at,),
            models=(model,),
            providers=(),
            ids=(name,),
            tags=(route_of(folder), thread),
            session=thread,
            origin=Origin(name=name),
        )


def _counts(event: Row, usage: Row) -> dict[str, Any]:
    counts = {name: count for name, count in usage.plain().items() if name not in _COPIES}
    counts["cacheWriteInputTokens"] = counts.pop("cacheCreationInputTokens", None)
    tokens = event.inner("tokens")
    for ours, theirs in (("inputTokens", "input"), ("outputTokens", "output")):
        if tokens.has(theirs):
            counts[ours] = tokens.get(theirs)
    return counts


ADAPTER: Final = Adapter(
    title="Amp threads",
    signs=("agentMode", "usageLedger", "nextMessageId"),
    recognizes=lambda row: "messages" in row and str(row.get("id")).startswith("T-"),
    read=_read,
    allowed=members(
        "v id agentMode created updatedAt nextMessageId messages(role messageId timestamp usage*) "
        "usageLedger(events(id timestamp model credits operationType fromMessageId toMessageId "
        "tokens*)) env(initial(trees(uri)))"
    ),
)
