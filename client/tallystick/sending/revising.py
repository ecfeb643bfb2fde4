"""`before_send`: a callback of the program that may change the labels of a record, or drop it."""

from __future__ import annotations

import json
from typing import Any, Callable, Optional

from tallystick.sending.records import Noted
from tallystick.sending.schema import HASHES, LABELS, LEVELS, find_problem

BeforeSend = Callable[[dict[str, Any]], Optional[dict[str, Any]]]

# A hash can be removed, but a label cannot become one.
_CHANGEABLE = frozenset((*LABELS, "provider"))
_REMOVABLE = frozenset((*LABELS, *HASHES, LEVELS))


class Revision:
    """Writes records as the callback returns them.

    What it must not return is dropped rather than sent unchanged: the callback may have meant to
    remove something.
    """

    reason = "before_send"

    def __init__(
        self,
        before_send: BeforeSend,
        write: Callable[[list[Noted]], list[str]],
        report: Callable[[str], None],
    ) -> None:
        self._before_send = before_send
        self._write = write
        self._report = report

    def __call__(self, records: list[Noted]) -> list[str]:
        revised = map(self._revise, self._write(records))
        return [line for line in revised if line is not None]

    def _revise(self, line: str) -> str | None:
        record = json.loads(line)
        try:
            returned = self._before_send(dict(record))
            if returned is None or returned == record:
                return None if returned is None else line
            # Counts and times are as they were measured.
            allowed = all(
                name in _CHANGEABLE or returned[name] == record.get(name, returned)
                if name in returned
                else name in _REMOVABLE
                for name in {**record, **returned}
            )
            problem = (
                find_problem(returned) if allowed else "it changes a field that is not a label"
            )
            written = json.dumps(returned, separators=(",", ":"))
        except Exception as error:
            problem = type(error).__name__
        if problem:
            self._report(f"before_send: a record was dropped: {problem}")
            return None
        return written
