"""Streams that are kept open, closed, or of their users' own making: each counts once."""

import os
import time
from typing import Any

import pytest

import tallystick
from tallystick import capture, ending
from tests.client import offline
from tests.client.collector import Collector
from tests.client.offline import capturing, queued
from tests.client.styles import CLAUDE, STREAMED
from tests.lazily import openai


@pytest.mark.usefixtures("captured")
def test_the_time_of_a_stream_is_that_of_its_end() -> None:
    stream = offline.openai_client().chat.completions.create(**STREAMED)
    time.sleep(0.05)
    list(stream)
    (record,) = queued()
    assert record["latency_ms"] >= 50


@pytest.mark.usefixtures("captured")
def test_a_stream_that_was_counted_is_no_longer_open() -> None:
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    next(stream)
    current = capture.active
    assert current is not None
    ending.end_open_streams(current)
    list(stream)
    assert current.open_streams == {}
    assert len(queued()) == 1


@pytest.mark.usefixtures("captured")
def test_a_stream_that_is_open_at_a_fork_counts_in_its_parent_alone() -> None:
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    next(stream)
    child = os.fork()
    if not child:
        stream.close()
        os._exit(len(queued()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    stream.close()
    assert len(queued()) == 1


@pytest.mark.usefixtures("captured")
def test_a_stream_that_is_closed_counts_though_it_is_kept() -> None:
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    next(stream)
    stream.close()
    assert len(queued()) == 1
    del stream


@pytest.mark.usefixtures("captured")
def test_an_asynchronous_stream_that_is_closed_counts_though_it_is_kept() -> None:
    async def ask() -> None:
        stream = await offline.async_anthropic_client().messages.create(**CLAUDE, stream=True)
        await anext(stream)
        await stream.close()
        assert len(queued()) == 1
        del stream

    offline.run(ask())


def test_closing_counts_the_streams_that_are_open(collector: Collector) -> None:
    with capturing(collector.dsn):
        stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
        next(stream)
        tallystick.close(5)
    stream.close()
    assert len(collector.records) == 1


class _Slow:
    """An asynchronous iterator that is no generator."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __aiter__(self) -> "_Slow":
        return self

    async def __anext__(self) -> Any:
        return await anext(self._items)


@pytest.mark.usefixtures("captured")
def test_an_asynchronous_stream_whose_iterator_is_no_generator_counts() -> None:
    class Counted(openai.AsyncStream[dict[str, Any]]):
        def __stream__(self) -> Any:
            return _Slow(super().__stream__())

    async def ask() -> int:
        client = offline.async_openai_client()
        asked: dict[str, Any] = {"body": STREAMED, "stream": True, "stream_cls": Counted}
        stream = await client.post("/chat/completions", cast_to=object, **asked)
        return len([item async for item in stream])

    assert offline.run(ask()) == 21
    assert len(queued()) == 1
