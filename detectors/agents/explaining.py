"""A session call by call: the agent's raw numbers beside ours, with the cost of each part."""

import json
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from detectors.agents.ledger import Ledger
from detectors.agents.pricing import Cells, parts_of
from detectors.formats.adapters.calls import Call

_CALLS: Final = """
SELECT calls.at, calls.agent, calls.is_subagent, calls.provider, calls.model, calls.tier,
    calls.region, calls.usd, calls.reported, calls.body, calls.session, calls.is_metered
FROM calls WHERE substr(session, 1, length(?)) = ? ORDER BY at, number
"""
_decode: Final = msgspec.msgpack.Decoder(Call).decode
_decode_cells: Final = msgspec.msgpack.Decoder(Cells).decode
_BY_ID: Final = {
    "claude-code": b'"usage"',
    "codex": b'"token_count"',
    "qwen-code": b'"usageMetadata"',
}


def explain_session(ledger: Ledger, session: str) -> list[dict[str, Any]]:
    """Return the calls of the session that begins so, in order of time."""
    rows = ledger.database.execute(_CALLS, (session, session)).fetchall()
    if not rows:
        return []
    raw = _find_raw(ledger, {row[10] for row in rows})
    rates = {
        tuple(row[:4]): _decode_cells(row[4])
        for row in ledger.database.execute("SELECT * FROM rates")
    }
    calls, before = list[dict[str, Any]](), dict[tuple[str, bool], int]()
    for at, agent, is_subagent, *names, usd, reported, body, own, is_metered in rows:
        call = _decode(body)
        cells = rates.get(tuple(names))
        parts = [
            {
                "part": name,
                "count": count,
                "rate_usd": round(rate, 12),
                "per": "call" if name in ("request", "web search") else "Mtok",
                "usd": round(count * rate, 9),
            }
            for name, count, rate in (parts_of(call, cells, at) if cells else None) or ()
        ]
        prompt, request = call.usage.prompt_tokens, call.request_id or ""
        raw_key = request.rpartition(":")[2] if agent == "codex" else request
        calls.append(
            {
                "at": datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="milliseconds"),
                "agent": agent,
                "session": own,
                "is_subagent": bool(is_subagent),
                "model": names[1],
                "tier": names[2],
                "billing": "metered" if is_metered else "included",
                "prompt_tokens": prompt,
                "completion_tokens": call.usage.completion_tokens,
                "prompt_growth": prompt - before.get((own, is_subagent), 0),
                "usd": None if usd is None or usd < 0 else round(usd, 9),
                "reported_usd": reported,
                "parts": parts,
                "raw": raw.get(raw_key, ""),
            }
        )
        before[own, is_subagent] = prompt
    return calls


def _find_raw(ledger: Ledger, sessions: set[str]) -> dict[str, str]:
    """Return the usage objects of calls as the agents' files have them, by the calls' IDs.

    Only numbers and names of fields are in them. Files that the agent has deleted have none.
    """
    found: dict[str, str] = {}
    needles = [session.encode() for session in sessions]
    for path, agent in ledger.database.execute("SELECT path, agent FROM files").fetchall():
        mark = _BY_ID.get(agent)
        if mark is None or not path.endswith(".jsonl"):
            continue
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError:
            continue
        if not any(needle in content for needle in needles):
            continue
        for line in content.split(b"\n"):
            if mark not in line:
                continue
            try:
                row = json.loads(line)
                if agent == "codex":
                    info = row["payload"]["info"]
                    total = info["total_token_usage"]
                    names = ("input_tokens", "cached_input_tokens", "output_tokens")
                    key = "-".join(
                        str(total.get(name) or 0) for name in (*names, "reasoning_output_tokens")
                    )
                    usage = info["last_token_usage"]
                elif agent == "qwen-code":
                    key, usage = row["uuid"], row["usageMetadata"]
                else:
                    key, usage = row["message"]["id"], row["message"]["usage"]
            except (ValueError, KeyError, TypeError):
                continue
            found[key] = json.dumps(_numbers(usage), separators=(", ", ": "))
    return found


def _numbers(value: Any) -> Any:
    """Return the numbers of an object at any depth, without texts."""
    if isinstance(value, dict):
        inner = {str(name)[:64]: _numbers(each) for name, each in value.items()}
        return {name: each for name, each in inner.items() if each not in (None, {}, [])}
    if isinstance(value, list):
        return [_numbers(each) for each in value]
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
