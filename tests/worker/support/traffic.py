"""Ingest bodies for the running service."""

import json

RECORDS = 60


def batch(records: int = RECORDS, seed: int = 0) -> bytes:
    """An ingest body of calls that are alike but for their times and ids."""
    calls = [
        {
            "ts": f"2026-10-{1 + number % 14:02d}T12:{number // 60 % 60:02d}:{number % 60:02d}Z",
            "provider": "openai",
            "model": "gpt-4o",
            "prompt_tokens": 900 + number % 50,
            "completion_tokens": 60 + number % 20,
            "request_id": f"{seed}-{number}",
            "tag": f"route-{number % 3}",
        }
        for number in range(records)
    ]
    return json.dumps({"records": calls}).encode()
