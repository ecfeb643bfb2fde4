"""Which tag a call gets: the innermost of its own task, thread, function or generator."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Generator
from typing import Any

import pytest

import tallystick
from tallystick.labels import current_tag
from tests.client import offline
from tests.client.offline import queued
from tests.client.styles import CHAT, CLAUDE


def test_the_innermost_tag_counts_and_an_exception_leaves_it() -> None:
    assert current_tag() is None
    with tallystick.tag("outer"):
        with tallystick.tag("inner"):
            assert current_tag() == "inner"
        assert current_tag() == "outer"
    assert current_tag() is None
    # An exception leaves the tag.
    with pytest.raises(ZeroDivisionError), tallystick.tag("x"):
        raise ZeroDivisionError
    assert current_tag() is None
    # A tag is cleaned and cut.
    with tallystick.tag("a\x00" + "b" * 200):
        assert current_tag() == "a" + "b" * 119
    with tallystick.tag(None):
        assert current_tag() is None


def test_a_generator_that_is_closed_within_another_tag_takes_only_its_own() -> None:
    def generate() -> Generator[None, None, None]:
        with tallystick.tag("generator's"):
            yield

    generator = generate()
    next(generator)
    with tallystick.tag("caller's"):
        generator.close()
        assert current_tag() == "caller's"
    assert current_tag() is None


def test_one_tag_may_be_entered_twice_and_by_two_threads_at_once() -> None:
    shared = tallystick.tag("shared")
    barrier = threading.Barrier(2)
    seen: list[str | None] = []

    def work() -> None:
        with shared:
            barrier.wait(60)
            seen.append(current_tag())
        seen.append(current_tag())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with shared, shared:
        seen.append(current_tag())
    assert seen.count("shared") == 3
    assert seen.count(None) == 2


def test_a_decorated_function_has_it() -> None:
    @tallystick.tag("f")
    def function(one: int, *, two: int) -> tuple[int, int, str | None]:
        """Its own words."""
        return one, two, current_tag()

    assert function(1, two=2) == (1, 2, "f")
    assert function.__doc__ == "Its own words."
    assert current_tag() is None


def test_a_decorated_coroutine_function_has_it() -> None:
    @tallystick.tag("f")
    async def function() -> str | None:
        await asyncio.sleep(0)
        return current_tag()

    async def both() -> list[str | None]:
        return [*await asyncio.gather(function(), function()), current_tag()]

    assert inspect.iscoroutinefunction(function)
    assert asyncio.run(both()) == ["f", "f", None]


def test_a_decorated_generator_has_it_only_within() -> None:
    closed: list[str | None] = []

    @tallystick.tag("g")
    def generator() -> Generator[Any, Any, str]:
        try:
            got = yield current_tag()
            try:
                yield got, current_tag()
            except KeyError:
                yield "caught", current_tag()
            return "end"
        finally:
            closed.append(current_tag())

    running: Any = generator()
    assert inspect.isgeneratorfunction(generator)
    assert next(running) == "g"
    assert current_tag() is None
    assert running.send(5) == (5, "g")
    assert running.throw(KeyError()) == ("caught", "g")
    with pytest.raises(StopIteration) as stopped:
        next(running)
    assert stopped.value.value == "end"
    left = generator()
    next(left)
    left.close()
    assert closed == ["g", "g"]


def test_a_decorated_asynchronous_generator_has_it_only_within() -> None:
    closed: list[str | None] = []

    @tallystick.tag("g")
    async def generator() -> AsyncIterator[Any]:
        try:
            got = yield current_tag()
            try:
                yield got, current_tag()
            except KeyError:
                yield "caught", current_tag()
        finally:
            closed.append(current_tag())

    async def use() -> None:
        running: Any = generator()
        assert await anext(running) == "g"
        assert current_tag() is None
        assert await running.asend(5) == (5, "g")
        assert await running.athrow(KeyError()) == ("caught", "g")
        assert [item async for item in running] == []
        left: Any = generator()
        await anext(left)
        await left.aclose()

    assert inspect.isasyncgenfunction(generator)
    asyncio.run(use())
    assert closed == ["g", "g"]


@pytest.mark.usefixtures("captured")
def test_a_stream_has_the_tag_of_its_request() -> None:
    with tallystick.tag("asked"):
        stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    with tallystick.tag("read"):
        list(stream)
    (record,) = queued()
    assert record["tag"] == "asked"


def test_a_tag_overrides_the_arguments_of_init() -> None:
    with offline.capturing("http://ik_x@127.0.0.1:9", tag="default"):
        offline.openai_client().chat.completions.create(**CHAT)
        with tallystick.tag("own"):
            offline.openai_client().chat.completions.create(**CHAT)
        assert [record["tag"] for record in queued()] == ["default", "own"]
