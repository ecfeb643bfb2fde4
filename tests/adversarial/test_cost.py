"""Promise 35: reading costs processor time in proportion to bytes, whatever a file contains."""

import time
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from typing import Final

import pytest

from service.errors import ServiceError
from service.web.http.bodies import BLOCK_BYTES
from service.web.intake.receiving import FileSink, copy_file
from service.web.intake.storing import CHUNK_BYTES
from tests.adversarial.bodies import BODIES, BOUNDARY, MULTIPARTS
from tests.adversarial.files import FILES
from tests.adversarial.growth import MOST_PER_DOUBLING, MOST_PER_SMALL_DOUBLING, growth, is_linear
from tests.adversarial.reading import ATTACKS, READ_BYTES, SPANS, read_file
from tests.adversarial.terms import TERMS, read_terms
from tests.cases import data_of
from tests.worker.support.promises import Note

SMALL: Final = 1 << 18
SMALL_SPANS: Final = 1 << 16
LARGEST_TERMS: Final = 98_000  # and a unit more
# The attacks on price terms that took more than linear time, or gigabytes.
COSTLY_TERMS: Final = {"a dotted key", "open arrays", "exponents", "overlaps", "wildcards"}
# Four times this is just below the longest line, and the longest batch decoded in one piece.
FULL: Final = 2_000_000
# Longer batches are decoded record by record. A processor's cache ends among these sizes, which
# costs about as much as other programs do.
FULL_BODY: Final = 9 << 20
LARGEST_SPANS: Final = 16 << 20
# The attacks that took more than linear time, and one of each other kind.
CHOSEN: Final = set(data_of(__file__)["chosen"])


def read_multipart(text: bytes) -> None:
    with suppress(ServiceError):
        copy_file(_blocks(text), BOUNDARY, FileSink(BytesIO(), 200 << 20))


def _blocks(text: bytes) -> Iterator[bytes]:
    return (text[start : start + BLOCK_BYTES] for start in range(0, len(text), BLOCK_BYTES))


READERS: Final = {
    **ATTACKS,
    **{name: (read_multipart, attack) for name, attack in MULTIPARTS.items()},
}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(
            pytest.param(name, SMALL_SPANS if name in SPANS else SMALL, id=f"{name}, small")
            for name in sorted(CHOSEN)
        ),
        *(
            pytest.param(name, FULL, id=f"{name}, in full", marks=pytest.mark.stress)
            for name in READERS
        ),
        *(
            pytest.param(name, FULL_BODY, id=f"{name}, long batch", marks=pytest.mark.stress)
            for name in BODIES
        ),
    ],
)
def test_twice_the_bytes_take_at_most_twice_the_time(name: str, size: int, note: Note) -> None:
    read, attack = READERS[name]
    most = MOST_PER_DOUBLING if size == FULL else MOST_PER_SMALL_DOUBLING
    # Other programs slow a measurement of milliseconds down, but not each of three in the same way.
    for _attempt in range(3):
        seconds = growth(read, attack, size, most)
        if is_linear(seconds, most):
            break
    assert is_linear(seconds, most), [round(each, 3) for each in seconds]
    note(f"35 linear time: {name}", 3, 0)


@pytest.mark.stress
@pytest.mark.parametrize("name", SPANS)
def test_a_request_of_spans_takes_a_second_at_most(name: str, note: Note) -> None:
    """Both the largest request and the largest that is accepted, within two percent."""
    read, attack = SPANS[name]
    most, rejected, accepted = 0.0, LARGEST_SPANS, 0
    size = LARGEST_SPANS
    while rejected - accepted > LARGEST_SPANS // 50:
        text, spent = attack(size), list[float]()
        for _ in range(2):  # a busy machine only adds time
            started_at = time.process_time()
            is_accepted = read(text)
            spent.append(time.process_time() - started_at)
        most = max(most, min(spent))
        if size == LARGEST_SPANS and is_accepted:
            break
        accepted, rejected = (size, rejected) if is_accepted else (accepted, size)
        size = (accepted + rejected) // 2
    assert most <= 1
    note("35 a request of spans takes at most a second", 1, int(most > 1))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in COSTLY_TERMS else pytest.mark.stress)
        for name in TERMS
    ],
)
def test_twice_the_price_terms_take_at_most_twice_the_time(name: str, note: Note) -> None:
    for _attempt in range(3):
        seconds = growth(read_terms, TERMS[name], LARGEST_TERMS // 4)
        if is_linear(seconds):
            break
    assert is_linear(seconds), [round(each, 3) for each in seconds]
    assert max(seconds) < 5, "a promise of one second, on any machine"
    note(f"35 linear time: price terms, {name}", 3, 0)


def test_files_are_read_in_the_chunks_of_the_service() -> None:
    assert READ_BYTES == CHUNK_BYTES


def test_eight_kilobytes_with_a_long_element_are_read_in_linear_time() -> None:
    small, large = (
        FILES["gzip members of one byte after a long element"](size) for size in (1_000, 4_000)
    )
    assert len(large) < 8_192
    least = [min(_seconds_of(text) for _ in range(3)) for text in (small, large)]
    assert least[1] <= 8 * least[0]


def _seconds_of(text: bytes) -> float:
    started_at = time.process_time()
    read_file(text)
    return time.process_time() - started_at


def test_the_attacks_are_at_least_a_hundred_and_have_the_size_that_was_asked_for() -> None:
    assert len(READERS) >= 100
    assert READERS.keys() >= CHOSEN
    for name, (_, attack) in READERS.items():
        if not name.startswith(("gzip of", "ZIP")):
            assert 40_000 <= len(attack(80_000)) <= 90_000, name
