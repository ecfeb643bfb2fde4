"""Libraries that take a second to import, imported when a test uses them first.

Every test process collects every test, and few of them run those that use these libraries.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final


class _Lazy:
    """A module that is imported when its first attribute is read."""

    # pytest looks for this at everything that a test file has, and would import every library.
    _mock_name: Final = None

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)


if TYPE_CHECKING:
    import anthropic
    import duckdb
    import fastapi
    import openai
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow.dataset as pyarrow_dataset
    import pypdf
else:
    anthropic = _Lazy("anthropic")
    duckdb = _Lazy("duckdb")
    fastapi = _Lazy("fastapi")
    openai = _Lazy("openai")
    pd = _Lazy("pandas")
    pyarrow_dataset = _Lazy("pyarrow.dataset")  # imports pandas
    pypdf = _Lazy("pypdf")

__all__ = ["anthropic", "duckdb", "fastapi", "openai", "pd", "pyarrow_dataset", "pypdf"]
