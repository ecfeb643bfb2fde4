"""Sixty odd exports as other tools write them, each with its calls or its one-sentence refusal."""

import base64
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.detectors.formats.adapters.source_rows import Call, lines


class Export(NamedTuple):
    """A file, and what an upload or an audit makes of it: calls, or a sentence with these words.

    `scrubbed` are the calls that `scrub` finds in a file that is refused because of its text.
    """

    file: bytes
    expected: list[Call] | str
    scrubbed: list[Call] | None = None


def _calls(said: Any) -> Any:
    return list(map(tuple, said)) if isinstance(said, list) else said


def _file(case: dict[str, Any]) -> bytes:
    """Return the rows as JSON lines, or the file as it is, which may be packed."""
    if "rows" in case:
        return lines(*case["rows"])
    return case["text"].encode() if "text" in case else base64.b64decode(case["packed"])


EXPORTS: Final = {
    case["name"]: Export(_file(case), _calls(case["expected"]), _calls(case.get("scrubbed")))
    for case in map(json.loads, Path(__file__).with_suffix(".jsonl").read_text().splitlines())
}
