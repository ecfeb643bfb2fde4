"""Responses that are made in the background: counted once, however often they are asked for.

The one that asks for a background response gets no usage; whoever polls for it gets the same usage
again and again once it is done. Any other response was counted when it was made, and asking for it
later must not count it a second time. They are told apart by the id in the URL, since of a response
only its usage and its model are read.
"""

from __future__ import annotations

_REMEMBERED = 1_024


class Background:
    def __init__(self) -> None:
        self._pending: dict[str, None] = {}
        self._counted: dict[str, None] = {}
        self._unanswered = 0

    def expect(self) -> None:
        """One was asked for in this process, and its usage is still to come."""
        self._unanswered += 1

    def is_new(self, response_id: str, *, has_usage: bool) -> bool:
        """Whether what was got by its id is to be counted now."""
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
