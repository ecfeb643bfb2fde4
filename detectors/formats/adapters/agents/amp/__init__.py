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

# What an event and its answer have in common, the surest first: places in their values.
_KEYS: Final = ((0, 1, 2, 3), (0, 1), (0, 2, 3), (1, 2, 3))
_GIVEN: Final = ("model", "inputTokens", "outputTokens")
_COPIES: Final = ("maxInputTokens", "totalInputTokens", "credits")


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    trees = row.inner("env", "initial").items("trees")
    folder, thread = next((tree.get("uri") for tree in trees), None), row.get("id")
    answers = [message for message in row.items("messages") if message.has("usage")]
    events = [each for each in row.inner("usageLedger").items("events") if each.has("tokens")]
    if not answers and not events:
        yield NO_USAGE
    # Find the answer of each event: it has the cache. An event of another model, such as that of
    # a title, may name the same message or none.
    waiting, found = dict(enumerate(answers)), dict[int, Row]()
    wanted = [
        (each.get("toMessageId"), each.get("model"), tokens.get("input"), tokens.get("output"))
        for each in events
        for tokens in (each.inner("tokens"),)
    ]
    offered = [(each.get("messageId"), *map(each.inner("usage").get, _GIVEN)) for each in answers]
    for parts in _KEYS:
        places: dict[str, list[int]] = {}
        for place in waiting:
            places.setdefault(_key(offered[place], parts), []).append(place)
        for number, values in enumerate(wanted):
            same = places.get(_key(values, parts))
            if same and number not in found and None not in (values[part] for part in parts):
                found[number] = waiting.pop(same.pop(0))
    joined = [(event, found.get(number, NOTHING)) for number, event in enumerate(events)]
    joined += [(NOTHING, answer) for answer in waiting.values()]
    for event, answer in joined:
        usage = answer.inner("usage")
        # A thread that continues another gives messages new IDs; their times stay.
        at = event.get("timestamp") or usage.get("timestamp") or answer.get("timestamp")
        model = event.get("model") or usage.get("model")
        name = f"amp:{at}:{model}"
        counts = {name: count for name, count in usage.plain().items() if name not in _COPIES}
        counts["cacheWriteInputTokens"] = counts.pop("cacheCreationInputTokens", None)
        tokens = event.inner("tokens")
        for ours, theirs in (("inputTokens", "input"), ("outputTokens", "output")):
            if tokens.has(theirs):
                counts[ours] = tokens.get(theirs)
        yield Sighting(
            readings=read_usage(counts, dialect="bedrock"),
            moments=(at,),
            models=(model,),
            providers=(),
            ids=(name,),
            tags=(route_of(folder), thread),
            session=thread,
            origin=Origin(name=name),
        )


def _key(values: tuple[Any, ...], parts: tuple[int, ...]) -> str:
    return repr([values[part] for part in parts])


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
