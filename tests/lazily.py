"""Libraries that take a second to import, imported when a test uses them first.

Every test process collects every test, and only one of them runs those that use these libraries.
"""

from importlib import import_module
from typing import TYPE_CHECKING


class _Lazy:
    """A module that is imported when its first attribute is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        return getattr(import_module(self._name), attribute)


if TYPE_CHECKING:
    import anthropic
    import openai
else:
    anthropic = _Lazy("anthropic")
    openai = _Lazy("openai")

__all__ = ["anthropic", "openai"]
