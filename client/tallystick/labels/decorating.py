"""A tag as a decorator: functions, coroutine functions, generators and asynchronous generators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Callable, TypeVar, cast

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    Label = AbstractContextManager[object]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def decorate(label: Label, function: _Function) -> _Function:
    """Wrap the function so that its body has the tag, and keep its kind."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with label:
            return function(*args, **kwargs)

    async def call_coroutine(*args: Any, **kwargs: Any) -> Any:
        with label:
            return await function(*args, **kwargs)

    def call_generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _Tagged(label, function(*args, **kwargs)))

    wrapper: Any = call
    if inspect.iscoroutinefunction(function):
        wrapper = call_coroutine
    elif inspect.isasyncgenfunction(function):
        wrapper = _tagged_async_generator(label, function)
    elif inspect.isgeneratorfunction(function):
        wrapper = call_generator
    return cast("_Function", functools.wraps(function)(wrapper))


def keep(entries: tuple[tuple[ContextVar[Any], Any], ...], function: _Function) -> _Function:
    """Wrap the function so that it runs with these values, and leaves the thread as it was."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        tokens = [(variable, variable.set(value)) for variable, value in entries]
        try:
            return function(*args, **kwargs)
        finally:
            for variable, token in tokens:
                variable.reset(token)

    return cast("_Function", call)


class _Tagged(Generator[Any, Any, Any]):
    """A generator that runs within the tag, one step at a time."""

    def __init__(self, label: Label, generator: Generator[Any, Any, Any]) -> None:
        self._label = label
        self._generator = generator

    def send(self, value: Any) -> Any:
        with self._label:
            return self._generator.send(value)

    def throw(self, *error: Any) -> Any:
        with self._label:
            return self._generator.throw(*error)

    def close(self) -> None:
        with self._label:
            self._generator.close()


def _tagged_async_generator(label: Label, function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        step, value = generator.asend, None
        try:
            while True:
                with label:
                    try:
                        item = await step(value)
                    except StopAsyncIteration:
                        return
                try:
                    step, value = generator.asend, (yield item)
                except GeneratorExit:
                    raise
                except BaseException as error:  # thrown in by the caller, for the body to see
                    step, value = generator.athrow, error
        finally:
            with label:
                await generator.aclose()

    return call
