"""Compile the function that builds a route's URL once per test process, not once per application.

Compiling them takes three quarters of the time that it takes to create an application.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from werkzeug.routing import Rule

_compile: Callable[..., Any] = Rule._compile_builder


def compile_once() -> None:
    """Share the functions, which take the rule as an argument, among equal rules."""
    Rule._compile_builder = _compile_builder  # type: ignore[method-assign, assignment]


def _compile_builder(rule: Rule, append_unknown: bool = True) -> Any:
    if rule.defaults:  # converters may have changed them
        return _compile(rule, append_unknown)
    return _compiled(_Key(rule), append_unknown)


class _Key:
    """A rule, equal to another if their functions are."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._parts = (rule.rule, tuple(rule._trace))

    def __hash__(self) -> int:
        return hash(self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._parts == other._parts


@cache
def _compiled(key: _Key, append_unknown: bool) -> Any:
    return _compile(key.rule, append_unknown)
