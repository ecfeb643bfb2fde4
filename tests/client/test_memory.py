"""A program that calls a million times holds no more than after the first thousand."""

import gc
from collections.abc import Callable
from functools import partial

import psutil
import pytest

import tallystick
from tallystick import capture
from tallystick.reading import options
from tests.client import offline
from tests.client.styles import CHAT, STREAMED
from tests.worker.support.promises import Note, at_a_twentieth, scaled

pytestmark = pytest.mark.usefixtures("captured")

CALLS = 1_000_000
ALLOWED_KB = 2_048
ROUNDS = 3


def _resident_kb() -> int:
    """The memory of this process now: the tests collect garbage rarely."""
    gc.collect()
    return int(psutil.Process().memory_info().rss // 1024)


def _growth_kb(work: Callable[[], None]) -> int:
    """Return by how much ``work`` grew this process.

    Other tests of the process leave free memory that the allocator returns or takes at any time,
    so a single round can grow without a leak; a leak grows in every round.
    """
    before = _resident_kb()
    work()
    return _resident_kb() - before


@at_a_twentieth
def test_memory_is_flat(share: float, note: Note) -> None:
    """The hooks see the same answer over and over: making a million would take an hour."""
    from openai._models import FinalRequestOptions

    from tallystick.calls import begin
    from tallystick.hooks.answers import end_or_attach

    client = offline.openai_client()
    answer = client.chat.completions.create(**CHAT)
    asked = FinalRequestOptions.construct(method="post", url="/chat/completions", json_data=CHAT)

    def call(times: int) -> None:
        for _ in range(times):
            end_or_attach(begin("openai", client, asked), answer)

    call(20_000)
    list(client.chat.completions.create(**STREAMED))
    calls = scaled(CALLS, share)
    leaks = all(_growth_kb(partial(call, calls)) > ALLOWED_KB for _ in range(ROUNDS))
    current = capture.active
    assert current is not None
    assert current.open_streams == {}
    assert tallystick.stats()["queued"] <= 5_000
    assert tallystick.stats()["faults"] == 0
    note("calls of which memory stays flat", calls, int(leaks))


def test_abandoned_streams_leave_nothing() -> None:
    client = offline.openai_client()
    for _ in range(50):
        client.chat.completions.create(**STREAMED)
        next(client.chat.completions.create(**STREAMED))
    gc.collect()
    current = capture.active
    assert current is not None
    assert current.open_streams == {}


def test_paths_that_a_program_makes_up_are_not_kept() -> None:
    current = capture.active
    assert current is not None
    before = len(options._routes)
    for number in range(2_000):
        letters = "".join(chr(ord("a") + int(digit)) for digit in str(number))
        current.miss(letters)
        options.route_of(f"/{letters}/{'x' * 1_000}")
    assert len(current.uncaptured) <= 257
    assert sum(current.uncaptured.values()) == 2_000
    assert len(options._routes) == before
