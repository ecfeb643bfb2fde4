"""Tasks of Cline, Roo Code and Kilo Code, and sessions of Cline since its version of 2026.

Fields: `tasks/<id>/ui_messages.json` in an editor's storage, an array of messages. A request is an
`api_req_started` whose `text` is JSON with its counts, as
https://github.com/cline/cline/blob/main/apps/vscode/src/shared/getApiMetrics.ts and
https://github.com/RooCodeInc/Roo-Code/blob/main/packages/core/src/message-utils/consolidateTokenUsage.ts
add them up. Whether Cline's `tokensIn` has the cache depends on the handler of the provider in
https://github.com/cline/cline/tree/864419d8b0/apps/vscode/src/core/api/providers.
Roo Code's has it since October 2025, before that only of OpenAI's protocol
(https://github.com/RooCodeInc/Roo-Code/pull/8954). Since 2026, Cline writes
`~/.cline/data/sessions/<id>/*.messages.json`, one object with `metrics` per message, whose input
has the cache (sdk/packages/core/src/services/agent-events.ts).

A task's messages don't have its ID, which is the name of its folder, nor, in most releases, the
model, which files beside them have.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import (
    MESSAGE,
    NO_USAGE,
    REPEATED,
    TOTALS,
    Origin,
    Sighting,
    find_moment,
)
from detectors.formats.adapters.labels import SUBAGENT, route_of
from detectors.formats.adapters.rows import UNREADABLE, Row
from detectors.formats.json_logs.usage.reader import count_of, read_usage
from detectors.formats.moments import EPOCH

_MESSAGES: Final = "ui_messages.json"
_SESSION: Final = ".messages.json"
_LONGEST: Final = 64 << 20
_COUNTS: Final = ("tokensIn", "tokensOut", "cacheReads", "cacheWrites")
_TOTALS: Final = ("deleted_api_reqs", "api_req_deleted", "subagent_usage", "condense_context")
# Every prompt has the project's folder, and in Roo Code and Kilo Code the model.
_FOLDER: Final = re.compile(rb"# Current Work(?:ing|space) Directory \(([^)\\\"]{1,400})\) Files")
_NAMED: Final = rb"</name>\n<model>"
_MODEL: Final = re.compile(re.escape(_NAMED) + rb'([^<\\"]{1,200})</model>')
_TIME_NAME: Final = b'"ts":'
_TIME: Final = re.compile(rb'"ts":\s?(\d{13})')
_LONGEST_NAME: Final = 1_000  # more than any of these
_BLOCK_BYTES: Final = 1 << 20
# What Cline writes after the messages of a task that it has from an older release.
_RESUMED: Final = b"this is a legacy conversation, which means tool names may have changed"
_RESULT: Final = b'"tool_result"'
_INCLUDES_CACHE: Final = datetime(2025, 11, 1, tzinfo=UTC)
# Until when the input of a provider of Cline had the cache; of the first ones it still has it.
_ALWAYS: Final = datetime.max.replace(tzinfo=UTC)
_HAD_CACHE: Final = {
    **dict.fromkeys(("openai", "litellm", "xai", "fireworks", "hicap", "lmstudio"), _ALWAYS),
    **dict.fromkeys(("qwen", "requesty", "openai-codex", "zai", "doubao", "deepseek"), _ALWAYS),
    "openai-native": datetime(2025, 4, 2, tzinfo=UTC),
    "gemini": datetime(2025, 6, 18, tzinfo=UTC),
    "openrouter": datetime(2025, 6, 25, tzinfo=UTC),
    "cline": datetime(2025, 6, 25, tzinfo=UTC),
    "vercel-ai-gateway": datetime(2025, 11, 17, tzinfo=UTC),
    **dict.fromkeys(("anthropic", "bedrock", "vertex", "claude-code", "cline-pass"), None),
    **dict.fromkeys(("minimax", "moonshot", "groq", "aihubmix", "sapaicore"), None),
}
_UPDATING: Final = timedelta(days=30)  # in which earlier releases are still in use
# Of these, writes are what was not in the cache: DeepSeek's `prompt_cache_miss_tokens`.
_MISSES: Final = ("deepseek", "openai", "xai", "fireworks", "hicap", "qwen", "doubao")
_PROXIES: Final = ("litellm", "oca")  # of these, either that or Anthropic's writes
# When releases logged reasoning of OpenAI's Responses API as reads, and what it read as writes.
_SWAPPED: Final = datetime(2025, 11, 18, tzinfo=UTC), datetime(2026, 2, 12, tzinfo=UTC) + _UPDATING


class _Timed(msgspec.Struct):
    ts: int = 0


_decode_times: Final = msgspec.json.Decoder(list[_Timed]).decode


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    at, copied = row.get("ts"), state.get("copied")
    if "messages" in row:
        yield from _read_session(row, state)
    elif row.get("say") in _TOTALS:
        yield TOTALS
    elif copied is not None and type(at) is int and copied[0] <= at <= copied[1]:
        yield REPEATED  # of a session
    elif row.get("say") != "api_req_started" or not any(map(row.inner("text").get, _COUNTS)):
        yield NO_USAGE  # a request that has no answer yet, or none at all
    else:
        request, named = row.inner("text"), row.inner("modelInfo")
        provider = model = None
        if (models := state.get("models")) and type(at) is int:  # each was used until the next
            found = next((each for each in reversed(models) if each[0] <= at), models[0])
            _, provider, model = found
        provider, model = named.get("providerId") or provider, named.get("modelId") or model
        counts, protocol = request.plain(_COUNTS), request.get("apiProtocol")
        moment = find_moment(at)
        is_roo = protocol is not None or state.get("is_roo")
        if is_roo:
            is_early = moment is not None and moment < _INCLUDES_CACHE
            has_cache = not (is_early and protocol == "anthropic")
            is_assumed = is_early and not protocol
        else:
            has_cache, is_assumed = _had_cache(str(provider), str(model), moment, counts)
        usage = {
            "input": counts.get("tokensIn"),
            "output": counts.get("tokensOut"),
            "cache": {"read": counts.get("cacheReads"), "write": counts.get("cacheWrites")},
            "cost": {"total": request.get("cost")},
        }
        leaves_out = () if has_cache else ("reads", "writes")
        readings = read_usage(usage, dialect="pi", leaves_out=leaves_out)
        if is_assumed and readings and (readings[0].cached or readings[0].written):
            readings[0].is_assumed = True
        session = state.get("session")
        yield Sighting(
            readings=readings,
            moments=(at,),
            models=(model,),
            providers=(provider,),
            ids=(session and f"{session}:{at}",),
            tags=(state.get("route"), session),
            session=session,
            endpoint=named.get("mode"),
            # Roo Code doesn't log the provider; calls that a plan includes have a cost of 0.
            billing="included" if is_roo and request.get("cost") == 0 else None,
            origin=MESSAGE,
        )


def _had_cache(
    provider: str, model: str, moment: datetime | None, counts: dict[str, Any]
) -> tuple[bool, bool]:
    """Return whether Cline's input has the cache, or is assumed to; correct the counts."""
    given, reads, writes = (
        count_of(counts.get(name)) or 0 for name in ("tokensIn", "cacheReads", "cacheWrites")
    )
    if provider in _MISSES or (provider in _PROXIES and given == reads + writes):
        counts |= {"tokensIn": max(given, reads + writes), "cacheWrites": 0}
        return True, False
    if provider == "openai-native" and writes:
        counts |= {"tokensIn": given + reads, "cacheReads": writes, "cacheWrites": 0}
        return False, False
    moment = moment or EPOCH
    if provider == "openai-native" and _SWAPPED[0] <= moment < _SWAPPED[1]:
        return False, True
    if provider == "vertex" and "gemini" in model:
        provider = "gemini"
    until = _HAD_CACHE.get(provider, _ALWAYS)
    can_have = given >= reads + writes
    if until is None or provider not in _HAD_CACHE:
        return until is not None and can_have, until is not None and can_have
    if moment < until:
        return can_have, not can_have
    return False, moment < until + _UPDATING


def _read_session(row: Row, state: State) -> Iterator[Sighting | str]:
    """Yield the calls of a session; some messages have the sum of several instead.

    A task of an older release that was resumed begins with its old messages, and the last answer
    among them has the sum of the task. If no other answer of a run has counts, its last one has
    the sum of the run.
    """
    route, session = state.get("route"), row.get("sessionId")
    if route and row.get("agent") != "lead":
        route += SUBAGENT
    messages = row.items("messages")
    is_resumed = (
        each.get("role") == "user" and _RESUMED in each.raw("content") for each in messages
    )
    resumed = next((place for place, each in enumerate(is_resumed) if each), 0)
    is_sum = is_by_call = False  # in this run
    for place, message in enumerate(messages):
        if not message.has("metrics"):
            if message.get("role") == "assistant":
                is_sum = not is_by_call
            elif _RESULT not in message.raw("content"):
                is_sum = is_by_call = False
            yield NO_USAGE
        elif place < resumed or is_sum:
            yield TOTALS
        else:
            is_by_call = True
            metrics, model = message.inner("metrics").plain(), message.inner("modelInfo")
            cost, at = metrics.pop("cost", None), message.get("ts")
            # A fork of a session has the IDs and times of its messages.
            name = f"cline:{message.get('id')}:{at}"
            yield Sighting(
                readings=read_usage(metrics, dialect="vercel"),
                moments=(at,),
                models=(model.get("id"),),
                providers=(model.get("provider"),),
                ids=(name,),
                tags=(route, session),
                session=session,
                reported_usd=cost,
                origin=Origin(name=name),
            )


def beside(path: Path) -> State:
    """Return what the files beside a task's messages say: its project and its models."""
    if path.name.endswith(_SESSION):
        folder = path.parent
        return {"route": route_of(_row_at(folder / f"{folder.name}.json").get("cwd"))}
    if path.name != _MESSAGES:
        return {}
    models = [
        (each.get("ts"), each.get("model_provider_id"), each.get("model_id"))
        for each in _row_at(path.with_name("task_metadata.json")).items("model_usage")
    ]
    prompts, project = path.with_name("api_conversation_history.json"), None
    with suppress(OSError):
        status = prompts.stat()
        project, named = _read_prompts(prompts, status.st_size, status.st_mtime_ns)
        models += named
    written, copied = _row_at(path.with_name("sdk_writeback.json")), None
    if "version" in written:
        # Cline has resumed a task of an older release as a session, and copies the session's
        # answers to the task, with other times each time.
        places = written.get("baseUiMessageCount"), written.get("writtenUiMessageCount")
        with suppress(*UNREADABLE, TypeError):
            times = [each.ts for each in _decode_times(_bytes_at(path))[slice(*places)]]
            copied = (min(times), max(times)) if times else None
    return {
        "session": path.parent.name,
        "route": route_of(project),
        "models": [each for each in models if type(each[0]) is int],
        "copied": copied,
        "is_roo": any("roo-cline" in part or "kilo-code" in part for part in path.parts),
    }


@lru_cache(maxsize=64)  # messages change more often than prompts
def _read_prompts(
    path: Path, _size: int, _mtime_ns: int
) -> tuple[str | None, list[tuple[int, None, str]]]:
    """Return the project's folder and the models in a task's prompts, each with its time.

    They are searched a block at a time, because they can be large, and nothing else is kept.
    """
    folder, models, since, rest = None, list[tuple[int, None, str]](), 0, b""
    with open(path, "rb") as file:
        while True:
            block = file.read(_BLOCK_BYTES)
            text = rest + block
            end = max(0, len(text) - _LONGEST_NAME) if block else len(text)
            if folder is None and (found := _FOLDER.search(text)):
                folder = found[1].decode("utf-8", "replace")
            done = 0
            while (place := text.find(_NAMED, done, end + len(_NAMED) - 1)) >= 0:
                since = _last_time(text, done, place) or since
                if found := _MODEL.match(text, place):
                    models.append((since, None, found[1].decode("utf-8", "replace")))
                done = place + 1
            since = _last_time(text, done, end) or since
            rest = text[end:]
            if not block:
                return folder, models


def _last_time(text: bytes, start: int, end: int) -> int:
    """Return the time of the last message that ends here; 0 if there is none."""
    place = text.rfind(_TIME_NAME, start, end + len(_TIME_NAME) - 1)
    found = _TIME.match(text, place) if place >= 0 else None
    return int(found[1]) if found else 0


def _row_at(path: Path) -> Row:
    try:
        return Row.decode(_bytes_at(path))
    except UNREADABLE:
        return Row({})


def _bytes_at(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.stat().st_size <= _LONGEST else b""
    except OSError:
        return b""


ADAPTER: Final = Adapter(
    title="Tasks of Cline, Roo Code and Kilo Code",
    signs=("say", "ask", "sessionId"),
    recognizes=lambda row: (
        "sessionId" in row and "agent" in row
        if "messages" in row
        else row.get("type") in ("say", "ask") and "ts" in row
    ),
    read=_read,
    beside=beside,
    allowed=members(
        "ts type say ask partial seq epoch conversationHistoryIndex modelInfo(providerId modelId "
        "mode) text(apiProtocol tokensIn tokensOut cacheReads cacheWrites cost cancelReason) "
        "version updated_at agent sessionId messages(id role ts agent sessionId modelInfo(id "
        "provider family) metrics*)"
    ),
)
