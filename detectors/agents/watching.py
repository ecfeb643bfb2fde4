"""`tallystick watch`: follows the agents' folders, fills the ledger, and sends what is new."""

import json
import os
import time
from collections.abc import Callable, Iterable
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
        self._destination = destination
        self._label = label
        self._sources = None if sources is None else list(sources)
        self._days = days
        self._settled = settled
        self._failures = 0
        self._error = ""  # of the last try to send
        self._limits_at = 0.0  # of the monotonic clock, as is
        self._send_at = 0.0  # of the monotonic clock, which no change of the time moves

    def run(self, every: float, wait: Callable[[float], bool]) -> None:
        while True:
            self.go_round()
            if not wait(every):
                return

    def go_round(self) -> None:
        """Read what is new and send it; what fails is said in the status and tried again."""
        ledger = self._ledger
        problems = reading.update(ledger, self._sources, processes=1, files_at_once=_FILES_AT_ONCE)
        sent = 0
        if self._destination is not None and time.monotonic() >= self._send_at:
            try:
                sent = send_new(ledger, self._destination, self._label, self._settled)
                if time.monotonic() >= self._limits_at:
                    send_limits(ledger, self._destination, self._label)
                    self._limits_at = time.monotonic() + _LIMITS_SECONDS
                self._failures, self._error = 0, ""
            except (Delayed, Refused) as failure:
                self._error = str(failure)
                self._failures += 1
                asked = failure.seconds if isinstance(failure, Delayed) else _LONGEST_WAIT
                backoff = min(_LONGEST_WAIT, EVERY_SECONDS * 2**self._failures)
                self._send_at = time.monotonic() + max(asked, backoff)
        ledger.forget_old(self._days)
        before = read_status(ledger)
        is_news = self._error != before.get("error", "") or sent or problems
        if is_news or time.time() - before.get("at", 0) > 60:
            last = time.time() if sent else before.get("sent_at")
            self._write_status(problems, last)

    def _write_status(self, problems: list[str], sent_at: float | None) -> None:
        status = {
            "at": time.time(), "pid": os.getpid(), "error": self._error, "problems": problems[:20],
            "sent_at": sent_at,
        }  # fmt: skip
        with self._ledger.changing():
            self._ledger.put(_STATUS, json.dumps(status))


def read_status(ledger: Ledger) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ledger.get(_STATUS) or "{}")
    return found
