"""Bound the log: a process writes so many lines of a kind per minute, and counts the rest."""

import logging
import time
from collections import Counter
from threading import Lock
from typing import Any, Final

import structlog

SUPPRESSED: Final = "log_lines_suppressed"
_WINDOW_SECONDS: Final = 60.0
# More kinds than the service has; what comes after them counts together.
_MOST_KINDS: Final = 1_000
_OTHERS: Final = {"like": "others"}
_FIRST_ERROR: Final = 400

# The values that a line has in common with those like it, as the summary shows them.
Kind = tuple[tuple[str, Any], ...]

_log: Final = structlog.stdlib.get_logger(__name__)


class RepeatedLines(logging.Filter):
    """Pass the first lines of each kind in a minute; afterwards, log how many more there were.

    The summary follows with the next line of any kind. Successful requests always pass: their share
    is a setting of its own.
    """

    def __init__(self, per_minute: int) -> None:
        super().__init__()
        self._per_minute = per_minute
        self._ends_at = 0.0
        self._seen: Counter[Kind] = Counter()
        self._lock = Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        kind = _kind_of(record)
        with self._lock:
            over, most = dict[Kind, int](), self._per_minute
            if time.monotonic() >= self._ends_at:
                over = {each: seen - most for each, seen in self._seen.items() if seen > most}
                self._seen.clear()
                self._ends_at = time.monotonic() + _WINDOW_SECONDS
            if kind is not None:
                if kind not in self._seen and len(self._seen) >= _MOST_KINDS:
                    kind = tuple(_OTHERS.items())
                self._seen[kind] += 1
            passes = kind is None or self._seen[kind] <= most
        for each, lines in over.items():
            _log.warning(SUPPRESSED, **dict(each), lines=lines)
        return passes


class Share:
    """Choose a share of many, evenly: of each ten, three for 0.3."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._sum = 0.0

    def take(self) -> bool:
        """Return whether this one is chosen; two threads at once may choose one more or less."""
        self._sum += self._share
        if self._sum < 1.0:
            return False
        self._sum -= 1.0
        return True


def _kind_of(record: logging.LogRecord) -> Kind | None:
    line = record.msg
    if not isinstance(line, dict):
        return (("like", str(line)), ("like_logger", record.name))
    event, status = line.get("event"), line.get("status")
    is_success = event == "request" and isinstance(status, int) and status < _FIRST_ERROR
    if is_success or event == SUPPRESSED:
        return None
    names = ("route", "status", "kind", "error_type")
    return (("like", event), *((name, line[name]) for name in names if name in line))
