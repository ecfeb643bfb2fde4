"""Background responses: counted once, however often they are polled.

The request that creates a background response gets no usage; each poll gets the same usage once
the response is done. Any other response was counted when it was created, and fetching it later must
not count it again. The ID in the URL of a poll identifies it, and that in the response to its
creation, which is kept in this process only.
"""

from __future__ import annotations

_REMEMBERED = 1_024


class Background:
    def __init__(self) -> None:
        self._pending: dict[str, None] = {}
        self._counted: dict[str, None] = {}
        self._unanswered = 0

    def expect(self, response_id: str | None) -> None:
        """Note that this process created a background response whose usage is pending.

        If its response was never parsed, the next unknown one that is fetched is taken for it.
        """
        if response_id is None:
            self._unanswered += 1
        else:
            _remember(self._pending, response_id)

    def is_new(self, response_id: str, *, has_usage: bool) -> bool:
        """Check if the fetched response should be counted now."""
        if response_id in self._counted:
            return False
        if not has_usage:
            if response_id not in self._pending:
                _remember(self._pending, response_id)
            return False
        was_pending = self._pending.pop(response_id, self) is None
        if not was_pending and not self._unanswered:
            return False
        self._unanswered = max(0, self._unanswered - 1)
        _remember(self._counted, response_id)
        return True


def _remember(ids: dict[str, None], response_id: str) -> None:
    if len(ids) >= _REMEMBERED:
        ids.pop(next(iter(ids)), None)
    ids[response_id] = None
