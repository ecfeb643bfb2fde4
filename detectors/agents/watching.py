"""`tallystick watch`: follows the agents' folders, fills the ledger, and sends what is new."""

import json
import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from detectors.agents import reading
from detectors.agents.folders import Source
from detectors.agents.ledger import KEPT_DAYS, Ledger
from detectors.agents.sending import (
    SETTLED_SECONDS,
    Delayed,
    Destination,
    Refused,
    send_limits,
    send_new,
)

EVERY_SECONDS: Final = 10.0
_LONGEST_WAIT: Final = 900.0
_LIMITS_SECONDS: Final = 300.0  # they change with each turn
_STATUS: Final = "watch"
# Much is new only at first. It is read by one process and in parts, to stay small.
_FILES_AT_ONCE: Final = 8


class Watcher:
    """One pass after the other; `wait` ends the loop by returning False."""

    def __init__(
        self,
        ledger: Ledger,
        destination: Destination | None = None,
        *,
        label: str = "",
        sources: Iterable[Source] | None = None,
        days: int = KEPT_DAYS,
        settled: float = SETTLED_SECONDS,
    ) -> None:
        self._ledger = ledger
        self._calls = self._limits = None
        if destination is not None:
            self._calls = _Sender(partial(send_new, ledger, destination, label, settled))
            self._limits = _Sender(
                partial(send_limits, ledger, destination, label), _LIMITS_SECONDS
            )
        self._sources = None if sources is None else list(sources)
        self._days = days

    def run(self, every: float, wait: Callable[[float], bool]) -> None:
        while True:
            self.go_round()
            if not wait(every):
                return

    def go_round(self) -> None:
        """Read what is new and send it; what fails is said in the status and tried again."""
        ledger = self._ledger
        problems = reading.update(ledger, self._sources, processes=1, files_at_once=_FILES_AT_ONCE)
        sent, error = 0, ""
        if self._calls and self._limits:
            sent = self._calls.try_to_send()
            error = self._calls.error
            if not error:
                self._limits.try_to_send()
                error = self._limits.error and f"plan limits: {self._limits.error}"
        ledger.forget_old(self._days)
        before = read_status(ledger)
        is_news = error != before.get("error", "") or sent or problems
        if is_news or time.time() - before.get("at", 0) > 60:
            status = {
                "at": time.time(), "pid": os.getpid(), "error": error, "problems": problems[:20],
                "sent_at": time.time() if sent else before.get("sent_at"),
            }  # fmt: skip
            with ledger.changing():
                ledger.put(_STATUS, json.dumps(status))


class _Sender:
    """Sends again after `every` seconds; after a failure, ever less often."""

    def __init__(self, send: Callable[[], int], every: float = 0.0) -> None:
        self._send = send
        self._every = every
        self._failures = 0
        self._at = 0.0  # of the monotonic clock, which no change of the time moves
        self.error = ""  # of the last try

    def try_to_send(self) -> int:
        """Send if it is time to; return what `send` does."""
        if time.monotonic() < self._at:
            return 0
        sent, wait = 0, self._every
        try:
            sent = self._send()
            self._failures, self.error = 0, ""
        except (Delayed, Refused) as failure:
            self.error = str(failure)
            self._failures += 1
            asked = failure.seconds if isinstance(failure, Delayed) else _LONGEST_WAIT
            wait = max(asked, min(_LONGEST_WAIT, EVERY_SECONDS * 2**self._failures))
        self._at = time.monotonic() + wait
        return sent


def read_status(ledger: Ledger) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ledger.get(_STATUS) or "{}")
    return found
