"""Find the usage in JSON that a library has not parsed yet, without parsing a long body once more.

A body of embeddings is megabytes of numbers; its usage stands beside them, at the end or beginning.
"""

from __future__ import annotations

import json
import re
from typing import Any

_SMALL = 65_536
_MARGIN = 4_096
_MEMBERS = re.compile(
    rb'"(usage|usageMetadata|model|modelVersion|id|responseId)"\s*:\s*'
    rb'(\{(?:[^{}]|\{[^{}]*\})*\}|"[^"\\]*")'
)
_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)


def read_document(body: bytes) -> dict[str, Any]:
    """Return the members of a JSON object; of a long one those beside its usage."""
    if len(body) <= _SMALL:
        document = json.loads(body)
        return document if isinstance(document, dict) else {}
    found: dict[str, Any] = {}
    for part in (body[:_MARGIN], body[-_MARGIN:]):
        for name, value in _MEMBERS.findall(part):
            found[name.decode()] = json.loads(value)
    return found


def id_or_none(value: object) -> str | None:
    """Return a response's ID; what may hold text is none."""
    return value if type(value) is str and _ID.fullmatch(value) else None
