"""Bound the processor time that a file may take, and what refused files may take in a day.

A refused file uses no credit, so without a daily limit one credit would let an account keep the
service busy for as long as it likes.
"""

import math
import time
from typing import Final

from flask import g
from limits import RateLimitItemPerDay

from service.errors import InvalidRequestError
from service.web.auth.callers import limit_by_caller
from service.web.http.current import current_config
from service.web.http.limits import limiter

_UNITS: Final = 10  # of a second
_REFUSED: Final = (
    "Too many of your files were rejected in the last 24 hours. Try again after the number of"
    " seconds in the Retry-After header; no credit was used."
)


class ProcessorTime:
    """The processor time that this thread has spent on the request's file."""

    def __init__(self, max_seconds: float) -> None:
        self._max_seconds = max_seconds
        self._started_at = time.thread_time()

    @property
    def seconds(self) -> float:
        return time.thread_time() - self._started_at

    def check(self, *_progress: object) -> None:
        """Raise `InvalidRequestError` if the file has taken too long; call it for each block."""
        if self.seconds > self._max_seconds:
            raise InvalidRequestError(
                f"This file takes more than {self._max_seconds:g} seconds to check. Split it into"
                " smaller files."
            )


def measure_file() -> ProcessorTime:
    """Begin to measure the request's file."""
    spent = ProcessorTime(current_config().upload_cpu_seconds)
    g.file_time = spent
    return spent


def _cost() -> int:
    """Return the processor time of the file, at most what is left: more would not be counted."""
    spent: ProcessorTime | None = g.get("file_time")
    if spent is None:
        return 1
    left = [
        known.remaining
        for known in limiter.current_limits
        if isinstance(known.limit, RateLimitItemPerDay)
    ]
    return max(1, min(math.ceil(spent.seconds * _UNITS), *left))


limit_refused_files: Final = limiter.shared_limit(
    lambda: f"{current_config().refused_upload_seconds_per_day * _UNITS} per day",
    scope="refused-files",
    key_func=limit_by_caller,
    deduct_when=lambda response: "file_time" in g and 400 <= response.status_code < 500,
    cost=_cost,
    error_message=_REFUSED,
)
