"""Makes a call of every style with the client on, and prints what became of it, as JSON.

Run it where the libraries are: `python -m tests.client.providers.matrix`. Clients are made before
`init()` if the first argument is `before`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import cast

import tallystick
from tallystick import capture
from tests.client import matrix, styles
from tests.client.providers.server import Server
from tests.client.providers.styles import STYLES, Clients


def _imported() -> list[str]:
    names = ("google.genai", "mistralai", "cohere", "httpx", "httpx2", "pydantic")
    return [name for name in names if name in sys.modules]


def _make(clients: Clients) -> None:
    for name in ("google", "vertex", "mistral", "cohere", "cohere_2"):
        getattr(clients, name)


def main() -> None:
    os.environ["SERVICE_DSN"] = "http://ik_test@127.0.0.1:9"
    with Server() as server:
        clients = Clients(server.url)
        if sys.argv[1:] == ["before"]:
            _make(clients)
        before = _imported()
        tallystick.init(prefix_hash_key="k")
        imported = sorted({*_imported()} - {*before})
        loop = asyncio.new_event_loop()
        rows = [matrix.run(style, cast("styles.Clients", clients), loop) for style in STYLES]
    found = {"rows": rows, "imported": imported, **tallystick.stats()}
    sys.stdout.write(json.dumps(found))
    capture.active = None
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
