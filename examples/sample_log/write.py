"""Writes `examples/sample-usage.jsonl`: two weeks of a gateway's log, counts only.

A small company calls models of two providers through a gateway that logs in OpenAI style. Most of
its routes are fine; each of the others has one kind of waste, so that every detector finds
something.

    python -m examples.sample_log.write [FILE]
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.sample_log.sound_routes import SOUND_ROUTES
from examples.sample_log.traffic import Call, Dice
from examples.sample_log.wasteful_routes import WASTEFUL_ROUTES

SAMPLE = Path(__file__).parents[1] / "sample-usage.jsonl"
ROUTES = (*SOUND_ROUTES, *WASTEFUL_ROUTES)
LOGGED_TWICE = 12  # lines that the gateway repeated after a restart


def lines() -> list[str]:
    """Return the lines of the log in time order."""
    calls = [call for route in ROUTES for call in route(Dice(route.__name__))]
    calls.sort(key=lambda call: call["created"])
    dice = Dice("gateway")
    written = [_line(number, call, dice) for number, call in enumerate(calls)]
    return written + written[-LOGGED_TWICE:]


def _line(number: int, call: Call, dice: Dice) -> str:
    prompt, completion = call["prompt"], call["completion"]
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    details = {"cached_tokens": call.get("cached"), "cache_write_tokens": call.get("written")}
    if any(details.values()):
        usage["prompt_tokens_details"] = _present(details)
    document = {
        "id": f"chatcmpl-{hashlib.sha256(str(number).encode()).hexdigest()[:16]}",
        "object": "chat.completion" if completion else "list",
        "created": call["created"],
        "model": call["model"],
        "usage": usage,
        "provider": call["provider"] if call["provider"] != "openai" else None,
        "tag": call["tag"],
        "latency_ms": 240 + dice.whole(0, 300) + completion * 14,
        "declared_max_tokens": call["cap"],
        "prefix_hash": call.get("hash"),
    }
    return json.dumps(_present(document), separators=(",", ":"))


def _present(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value is not None}


def main(arguments: Sequence[str]) -> None:
    file = Path(arguments[0]) if arguments else SAMPLE
    written = lines()
    file.write_text("\n".join(written) + "\n", encoding="utf-8", newline="\n")
    print(f"{file}: {len(written):,} lines, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
