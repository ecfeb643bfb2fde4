"""Change settings for a test, and numbers that are no settings."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from service.config import Config


def change_config(config: Config, monkeypatch: pytest.MonkeyPatch, **values: Any) -> Config:
    """Return other settings; what is fixed, or follows from others, is patched."""
    settings = {one.name for one in fields(Config)}
    for name in values.keys() - settings:
        monkeypatch.setattr(Config, name, values.pop(name))
    return replace(config, **values)


def by_plan(free: int, pro: int, team: int) -> Callable[[Config, str], int]:
    """Return what replaces `queued_audits`."""
    return lambda _config, plan: {"free": free, "pro": pro, "team": team}[plan]
