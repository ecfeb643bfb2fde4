"""Background responses: counted once, however often they are polled.

The request that creates a background response gets no usage; each poll gets the same usage once
the response is done. Any other response was counted when it was created, and fetching it later must
not count it again. The ID in the URL of a poll identifies it, and that in the response to its
creation, which is kept in this process only.
"""

from __future__ import annotations

from typing import Any

_REMEMBERED = 1_024
_CLOCKS_DIFFER = 300  # seconds


class Background:
    def __init__(self) -> None:
        self._pending: dict[str, None] = {}
        self._counted: dict[str, None] = {}
        self._unanswered: dict[float, None] = {}

    def expect(self, response_id: str | None, asked_at: float) -> None:
        """Note that this process created a background response whose usage is pending.

        If its response was never parsed, the next unknown one that is fetched and was created at
        that time is taken for it.
        """
        if response_id is None:
            _remember(self._unanswered, asked_at)
        else:
            _remember(self._pending, response_id)

    def is_new(self, response_id: str, *, has_usage: bool, created_at: object = None) -> bool:
        """Check if the fetched response should be counted now."""
        if response_id in self._counted:
            return False
        if not has_usage:
            if response_id not in self._pending:
                _remember(self._pending, response_id)
            return False
        was_pending = self._pending.pop(response_id, self) is None
        if not was_pending and not self._was_asked_for(created_at):
            return False
        _remember(self._counted, response_id)
        return True

    def _was_asked_for(self, created_at: object) -> bool:
        """Check for a request at that time whose answer has not been seen, and forget it."""
        if not isinstance(created_at, (int, float)):
            return False
        for asked_at in list(self._unanswered):
            if abs(created_at - asked_at) <= _CLOCKS_DIFFER:
                self._unanswered.pop(asked_at, None)
                return True
        return False


def _remember(keys: dict[Any, None], key: Any) -> None:
    if len(keys) >= _REMEMBERED:
        keys.pop(next(iter(keys)), None)
    keys[key] = None
