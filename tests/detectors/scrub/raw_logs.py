"""Raw logs of every shape that `scrub` reads, with text in them, as the tools write them.

`raw_logs.jsonl` has each beside the line that it comes to.
"""

import json
import re
from pathlib import Path
from typing import Any, Final

QUESTION: Final = "Where do I find the anchor?"
CREATED: Final = 1_790_000_000
TIME: Final = "2026-09-21T14:13:20.250Z"
SESSION: Final = "0b8f2f4e-2c2f-4d0a-9a55-0f4b8f0d6b11"
_CASES: Final = [
    json.loads(line) for line in Path(__file__).with_suffix(".jsonl").read_text().splitlines()
]
RAW: Final[dict[str, dict[str, Any]]] = {case["name"]: case["raw"] for case in _CASES}
LINES: Final[dict[str, dict[str, Any]]] = {case["name"]: case["line"] for case in _CASES}
CHAT_PAIR, RESPONSE_PAIR = RAW["chat pair"], RAW["response pair"]
MESSAGE_PAIR, EMBEDDING_PAIR = RAW["message pair"], RAW["embedding pair"]
CHAT_REQUEST, CHAT = CHAT_PAIR["request"], CHAT_PAIR["response"]
RESPONSE_REQUEST, RESPONSE = RESPONSE_PAIR["request"], RESPONSE_PAIR["response"]
MESSAGE_REQUEST, MESSAGE = MESSAGE_PAIR["request"], MESSAGE_PAIR["response"]
EMBEDDING: Final = EMBEDDING_PAIR["response"]
BATCH, ANTHROPIC_BATCH = RAW["batch"], RAW["anthropic batch"]
CLAUDE_CODE, LITELLM = RAW["claude code"], RAW["litellm"]
SPEND_LOG, LANGFUSE = RAW["litellm spend log"], RAW["langfuse"]
CLAUDE_CODE_QUESTION: Final = {
    "type": "user",
    "timestamp": TIME,
    "sessionId": SESSION,
    "cwd": "/srv/boats",
    "gitBranch": "main",
    "message": {"role": "user", "content": QUESTION},
}


def apart(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give each document an ID of its own, in every place that has one."""
    ids = re.compile(r"\b(chatcmpl-|resp_|msg_|batch_req_|req_)1\b|\b(5d3f9b1c)(?=2a4e6f70)")
    found = list[dict[str, Any]]()
    for number, document in enumerate(documents):
        named = ids.sub(rf"\g<1>\g<2>{number}x", json.dumps(document))
        found.append(json.loads(named))
    return found
