"""Makes a call of every style with the client on, and prints what was recorded of each, as JSON.

Run it where any version of a provider's library is: `python -m tests.client.matrix openai`, or with
another tool that is turned on before or after the client: `… openai sentry first`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from typing import Any

import tallystick
from tallystick import capture
from tallystick.sending.records import write_record
from tests.client import instrumentors
from tests.client.provider_stub import ProviderStub
from tests.client.styles import STYLES, Clients, Counts, Style

ABSENT = "not in this version"
CAPTURED = "captured"


def run_all(url: str, libraries: list[str]) -> list[dict[str, Any]]:
    clients, loop = Clients(url), asyncio.new_event_loop()
    rows = [run(style, clients, loop) for style in STYLES if style.library in libraries]
    loop.run_until_complete(clients.aclose())
    loop.close()
    clients.close()
    return rows


def run(style: Style, clients: Clients, loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    take_records()
    problem = ""
    try:
        outcome = style.run(clients)
        if asyncio.iscoroutine(outcome):
            loop.run_until_complete(outcome)
    except (AttributeError, ImportError, TypeError) as error:
        problem = f"{ABSENT}: {error}"
    except Exception as error:
        problem = f"broke: {type(error).__name__}: {error}"
    gc.collect()
    gc.freeze()  # the libraries are large, and need not be looked through once more for each style
    records = take_records()
    if problem:
        verdict = problem
    elif [counts_of(record) for record in records] == list(style.expected):
        verdict = style.uncaptured or CAPTURED
    else:
        verdict = f"wrong: {[counts_of(record) for record in records]}"
    return {
        "name": style.name,
        "library": style.library,
        "is_further": style.is_further,
        "verdict": verdict,
        "records": records,
    }


def take_records() -> list[dict[str, Any]]:
    """Out of the queue, so that no server is needed."""
    current = capture.active
    assert current is not None
    queue = current.delivery._queue
    return [json.loads(str(write_record(queue.popleft()))) for _ in range(len(queue))]


def counts_of(record: dict[str, Any]) -> Counts:
    return (
        record["prompt_tokens"],
        record["completion_tokens"],
        record.get("cached_tokens"),
        record.get("cache_write_tokens"),
    )


def main() -> None:
    os.environ["SERVICE_DSN"] = "http://ik_test@127.0.0.1:9"
    library, tool, order = (*sys.argv[1:], "", "")[:3]
    if order == "first":
        instrumentors.turn_on(tool)
    tallystick.init()
    if order == "last":
        instrumentors.turn_on(tool)
    with ProviderStub() as provider_stub:
        rows = run_all(provider_stub.url, [library])
    stats = tallystick.stats()
    sys.stdout.write(json.dumps({"rows": rows, "faults": stats["faults"]}))
    capture.active = None  # nothing of this is for anybody
    sys.stdout.flush()
    os._exit(0)  # other tools would wait for their servers


if __name__ == "__main__":
    main()
