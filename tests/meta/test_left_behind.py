"""A file whose tests change their process for those of the next file is named."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.left_behind import LeftBehind


def _end_of(guard: LeftBehind, name: str, following: str) -> None:
    item, next_item = (SimpleNamespace(path=Path(each)) for each in (name, following))
    ending: Any = guard.pytest_runtest_teardown(item, next_item)  # type: ignore[arg-type]
    next(ending)
    with pytest.raises(StopIteration):
        next(ending)


def test_a_change_is_an_error_at_the_end_of_its_file_and_of_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard = LeftBehind()
    monkeypatch.setenv("A_SETTING", "CANARY")
    monkeypatch.setattr(logging.getLogger("gunicorn.error"), "propagate", False)
    _end_of(guard, "a.py", "a.py")
    with pytest.raises(AssertionError) as caught:
        _end_of(guard, "a.py", "b.py")
    assert str(caught.value).startswith("a.py left behind: $A_SETTING, the logger gunicorn.error")
    assert "CANARY" not in str(caught.value)
    _end_of(guard, "b.py", "c.py")
