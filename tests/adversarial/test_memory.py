"""Promise 36: no file or body makes a process grow by more than 150 MB."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.adversarial.bodies import BODIES
from tests.adversarial.files import FILES
from tests.adversarial.reading import SPANS
from tests.cases import data_of
from tests.worker.support.promises import Note

ROOT: Final = Path(__file__).parents[2]
MOST_MEGABYTES: Final = 150
FILE_BYTES: Final = 8_200_000  # the longest line
BODY_BYTES: Final = 8_000_000
LARGER: Final = {"arrays in a record": 16_000_000}  # which took most memory once
LARGEST_BODY_BYTES: Final = 89_000_000  # nearly the largest of version 2
LARGEST_SPANS_BYTES: Final = 16_000_000
CHOSEN: Final = data_of(__file__)["chosen"]


@pytest.mark.parametrize(
    ("names", "body_bytes"),
    [
        pytest.param(CHOSEN, BODY_BYTES, id="chosen"),
        pytest.param((*FILES, *BODIES), LARGEST_BODY_BYTES, id="in_full", marks=pytest.mark.stress),
        pytest.param(SPANS, LARGEST_SPANS_BYTES, id="in_full, spans", marks=pytest.mark.stress),
    ],
)
def test_an_attack_takes_little_memory(names: tuple[str, ...], body_bytes: int, note: Note) -> None:
    """Each is read in a process of its own, which measures its own peak, with the body itself."""
    largest = dict(zip(names, _megabytes(names, body_bytes), strict=True))
    too_large = {name: size for name, size in largest.items() if size > MOST_MEGABYTES}
    assert too_large == {}
    note("36 a hostile file or body takes at most 150 MB", len(names), len(too_large))


def _megabytes(names: tuple[str, ...], body_bytes: int) -> list[float]:
    sizes = dict.fromkeys(names, body_bytes) | dict.fromkeys(FILES, FILE_BYTES)
    attacks = [(name, max(sizes[name], LARGER.get(name, 0))) for name in names]
    command = [sys.executable, "-m", "tests.adversarial.measured", json.dumps(attacks)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [float(line) for line in ended.stdout.split()]
