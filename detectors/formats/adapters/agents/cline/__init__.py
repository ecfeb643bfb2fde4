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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import (
    MESSAGE,
    NO_USAGE,
    TOTALS,
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
_TOTALS: Final = ("deleted_api_reqs", "subagent_usage")
# What every prompt begins with: the folder, and in Roo Code and Kilo Code the model.
_FOLDER: Final = re.compile(rb"# Current Work(?:ing|space) Directory \(([^)\\\"]{1,400})\) Files")
_MODEL: Final = re.compile(
    rb'</name>\\n<model>(?P<model>[^<\\"]{1,200})</model>|"ts":\s?(?P<ts>\d{13})'
)
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
# In releases of these months, reads were the reasoning of OpenAI's Responses API, and writes reads.
_SWAPPED: Final = datetime(2025, 11, 18, tzinfo=UTC), datetime(2026, 2, 12, tzinfo=UTC) + _UPDATING


def _recognizes(row: Row) -> bool:
    if "messages" in row:
        return "sessionId" in row and "agent" in row
    return row.get("type") in ("say", "ask") and "ts" in row


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    if "messages" in row:
        yield from _read_session(row, state)
    elif row.get("say") in _TOTALS:
        yield TOTALS
    elif row.get("say") != "api_req_started" or not any(map(row.inner("text").get, _COUNTS)):
        yield NO_USAGE  # a request that has no answer yet, or none at all
    else:
        yield _request(row, state)


def _request(row: Row, state: State) -> Sighting:
    request, named, at = row.inner("text"), row.inner("modelInfo"), row.get("ts")
    provider, model = _model_at(at, state.get("models"))
    provider, model = named.get("providerId") or provider, named.get("modelId") or model
    counts, protocol = request.plain(_COUNTS), request.get("apiProtocol")
    moment = find_moment(at)
    if protocol is not None or state.get("is_roo"):
        is_early = moment is not None and moment < _INCLUDES_CACHE
        has_cache, is_assumed = (
            not (is_early and protocol == "anthropic"),
            is_early and not protocol,
        )
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
    return Sighting(
        readings=readings,
        moments=(at,),
        models=(model,),
        providers=(provider,),
        ids=(session and f"{session}:{at}",),
        tags=(state.get("route"), session),
        session=session,
        endpoint=named.get("mode"),
        origin=MESSAGE,
    )


def _had_cache(
    provider: str, model: str, moment: datetime | None, counts: dict[str, Any]
) -> tuple[bool, bool]:
    """Return whether Cline's input has the cache, and whether that is assumed; mend the counts."""
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


def _model_at(at: Any, models: list[tuple[int, Any, Any]] | None) -> tuple[Any, Any]:
    """Return the provider and model that were in use, of which each holds until the next."""
    if not models or type(at) is not int:
        return None, None
    _, provider, model = next((each for each in reversed(models) if each[0] <= at), models[0])
    return provider, model


def _read_session(row: Row, state: State) -> Iterator[Sighting | str]:
    session = row.get("sessionId")
    route = state.get("route")
    if route and row.get("agent") != "lead":
        route += SUBAGENT
    for message in row.items("messages"):
        if not message.has("metrics"):
            yield NO_USAGE
            continue
        metrics, model = message.inner("metrics").plain(), message.inner("modelInfo")
        cost = metrics.pop("cost", None)
        yield Sighting(
            readings=read_usage(metrics, dialect="vercel"),
            moments=(message.get("ts"),),
            models=(model.get("id"),),
            providers=(model.get("provider"),),
            ids=(f"{session}:{message.first('id', 'ts')}",),
            tags=(route, session),
            session=session,
            reported_usd=cost,
            origin=MESSAGE,
        )


def beside(path: Path) -> State:
    """Return what the files beside a task's messages say: its project and its models.

    Of its prompts, which have them in Roo Code and Kilo Code, only these are kept.
    """
    if path.name.endswith(_SESSION):
        folder = path.parent
        return {"route": route_of(_row_at(folder / f"{folder.name}.json").get("cwd"))}
    if path.name != _MESSAGES:
        return {}
    models = [
        (each.get("ts"), each.get("model_provider_id"), each.get("model_id"))
        for each in _row_at(path.with_name("task_metadata.json")).items("model_usage")
    ]
    prompts = _bytes_at(path.with_name("api_conversation_history.json"))
    since = 0  # the answer before, which is older than the request
    for found in _MODEL.finditer(prompts):
        if found["ts"]:
            since = int(found["ts"])
        else:
            models.append((since, None, found["model"].decode("utf-8", "replace")))
    folder_named = _FOLDER.search(prompts)
    return {
        "session": path.parent.name,
        "route": route_of(folder_named[1].decode("utf-8", "replace")) if folder_named else None,
        "models": [each for each in models if type(each[0]) is int],
        "is_roo": any("roo-cline" in part or "kilo-code" in part for part in path.parts),
    }


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
    signs=("say", "ask", "updated_at"),
    recognizes=_recognizes,
    read=_read,
    beside=beside,
    allowed=members(
        "ts type say ask partial seq epoch conversationHistoryIndex modelInfo(providerId modelId "
        "mode) text(apiProtocol tokensIn tokensOut cacheReads cacheWrites cost cancelReason) "
        "version updated_at agent sessionId messages(id role ts agent sessionId modelInfo(id "
        "provider family) metrics*)"
    ),
)
