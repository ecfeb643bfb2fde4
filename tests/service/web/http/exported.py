"""The sample of each adapter as a file with a canary in every text and at every level."""

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any, Final

import detectors.formats.adapters as room

_TEXT: Final = "A text that never leaves this machine."


def with_canary(name: str, canary: str) -> bytes:
    """Return the sample log of the adapter `gateways.litellm` with this canary in it."""
    [sample] = (Path(room.__file__).parent / name.replace(".", "/")).glob("sample.*")
    if sample.suffix == ".csv":
        return _table(sample.read_text(), canary)
    text = sample.read_text()
    documents = [json.loads(text)] if text.startswith("{\n") else map(json.loads, text.splitlines())
    return b"".join(json.dumps(_planted(each, canary)).encode() + b"\n" for each in documents)


def _planted(value: Any, canary: str) -> Any:
    if isinstance(value, dict):
        inner = {key: _planted(each, canary) for key, each in value.items()}
        return inner | {"note": canary, "content": canary}
    if isinstance(value, list):
        return [_planted(each, canary) for each in value]
    if isinstance(value, str) and value.startswith(("{", "[")):
        return json.dumps(_planted(json.loads(value), canary))
    return canary if value == _TEXT else value


def _table(text: str, canary: str) -> bytes:
    """Return the CSV with the canary in a column of its own, and in each that has words."""
    header, *rows = csv.reader(StringIO(text))
    written = StringIO()
    csv.writer(written).writerows(
        [
            [*header, "note"],
            *([canary if " " in cell and cell[0].isalpha() else cell for cell in row] + [canary]
              for row in rows),
        ]
    )  # fmt: skip
    return written.getvalue().encode()
