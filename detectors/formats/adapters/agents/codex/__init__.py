"""Codex sessions: rollouts, a line per event.

Fields: `~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl`, as
https://github.com/openai/codex/blob/main/codex-rs/protocol/src/protocol.rs writes them
(`TokenCountEvent`, `SessionMeta`, `TurnContextItem`). `last_token_usage` is the last call, and
`total_token_usage` the session so far; inputs include the cached part. A fork (`forked_from_id`)
and some sub-agents (`parent_thread_id`, also in `source.subagent.thread_spawn`) begin with a copy
of the session they come from, at once and with times of its own or of the original
(https://github.com/openai/codex/issues), so a copied call is known by the counts so far.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import NO_USAGE, Origin, Sighting, find_moment
from detectors.formats.adapters.labels import SUBAGENT, route_of
from detectors.formats.adapters.rows import Row
from detectors.formats.json_logs.usage.reader import read_usage

SUBSCRIPTION: Final = "codex"
_COUNTS: Final = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    kind, payload = row.get("type"), row.inner("payload")
    if kind == "session_meta":
        _begin(row, payload, state)
    elif kind == "turn_context":
        state["model"] = payload.get("model")
    elif kind == "event_msg" and payload.get("type") == "thread_settings_applied":
        settings = payload.inner("thread_settings")
        state["model"] = settings.get("model") or state.get("model")
        state["tier"] = settings.get("service_tier")
    if kind != "event_msg" or payload.get("type") != "token_count" or not payload.has("info"):
        yield NO_USAGE
        return
    info, limits = payload.inner("info"), payload.inner("rate_limits")
    total = info.inner("total_token_usage")
    last = info.inner("last_token_usage")
    if not info.has("last_token_usage"):  # early releases log only the session so far
        before = Row(state.get("total", {}))
        last = Row({name: _count(total, name) - _count(before, name) for name in _COUNTS})
    state["total"] = {name: _count(total, name) for name in _COUNTS}
    place = "-".join(str(total.get(name) or 0) for name in _COUNTS)
    session = state.get("session")
    yield Sighting(
        readings=read_usage(last.plain()),
        moments=(row.get("timestamp"),),
        models=(state.get("model"),),
        providers=(SUBSCRIPTION,),
        ids=(f"{state.get('root') or 'codex'}:{place}",),
        tags=(state.get("route"), session),
        session=session,
        # Limits without a plan are those of an API key.
        billing="metered" if "plan_type" in limits and not limits.has("plan_type") else None,
        service_tier=state.get("tier"),
        origin=origin_of(state, place),
    )


def _begin(row: Row, payload: Row, state: State) -> None:
    """Remember the session and those that it was forked from, whose own beginnings it may repeat.

    A file may have several sessions, one after the other.
    """
    name = payload.get("id")
    spawned = payload.inner("source", "subagent", "thread_spawn").get("parent_thread_id")
    named = (payload.get("forked_from_id"), payload.get("parent_thread_id"), spawned)
    parents = [each for each in dict.fromkeys(named) if isinstance(each, str)]
    if name is not None and name == state.get("session"):
        return
    if name in state.get("parents", ()) and "total" not in state:
        state["parents"] += tuple(each for each in parents if each not in state["parents"])
        state["root"] = payload.first("forked_from_id", "id")
        return
    state.clear()
    state["session"], state["parents"] = name, tuple(parents)
    is_subagent = payload.get("thread_source") == "subagent" or payload.inner("source").has(
        "subagent"
    )
    route = route_of(payload.get("cwd")) or (name if isinstance(name, str) else None)
    state["route"] = f"{route}{SUBAGENT}" if route and is_subagent else route
    state["root"] = payload.first("forked_from_id", "id")
    state["begun"] = find_moment(payload.get("timestamp")) or find_moment(row.get("timestamp"))


def origin_of(state: State, place: str) -> Origin:
    session = state.get("session")
    return Origin(
        place=place,
        session=session if isinstance(session, str) else "",
        parents=state.get("parents", ()),
        begun=state.get("begun"),
    )


def _count(usage: Row, name: str) -> int:
    value = usage.get(name)
    return value if type(value) is int else 0


ADAPTER: Final = Adapter(
    title="Codex sessions",
    signs=("payload",),
    recognizes=lambda row: "payload" in row and "type" in row and "timestamp" in row,
    read=_read,
    allowed=members(
        "timestamp type payload(type id cwd forked_from_id parent_thread_id timestamp originator "
        "cli_version model_provider source* thread_source agent_role agent_nickname model effort "
        "turn_id info* rate_limits* "
        "thread_settings(model model_provider_id service_tier reasoning_effort))"
    ),
)
