"""Check bodies by the types of providers' own libraries, recorded because these are large.

A type is a name of the file, or one of JSON; a list has one for its items. A member whose name ends
in "!" is required.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

_KINDS: Mapping[str, Any] = {
    **{"string": str, "boolean": bool, "integer": int, "number": (int, float)},
    **{"int64": str, "date-time": str, "any": object},
}


@cache
def _load(library: str) -> Any:
    return json.loads(Path(__file__).with_name(f"{library}.json").read_text())["schemas"]


def check(library: str, kind: Any, value: Any, at: str = "") -> None:
    """Check that a value is of a type: no unknown members, all required ones, theirs of theirs."""
    if isinstance(kind, list):
        assert isinstance(value, list), at
        for inner in value:
            check(library, kind[0], inner, at)
    elif kind in _KINDS:
        assert isinstance(value, _KINDS[kind]), (at, value)
        if kind == "int64":
            int(value)
        elif kind == "date-time":
            assert datetime.fromisoformat(value).tzinfo, (at, value)
    else:
        members = {name.rstrip("!"): inner for name, inner in _load(library)[kind].items()}
        assert value.keys() <= members.keys(), (at, kind, value.keys() - members.keys())
        required = {name[:-1] for name in _load(library)[kind] if name.endswith("!")}
        assert required <= value.keys(), (at, kind)
        for name, inner in value.items():
            if inner is not None or name in required:
                check(library, members[name], inner, f"{at}.{name}")


def read_body(query: Mapping[str, list[str]]) -> dict[str, Any]:
    """Return the body of a request from how a stub has it."""
    return {
        name: json.loads(text) if text[:1] in ("{", "[") else text for name, [text] in query.items()
    }
