"""A bounded queue of records, and the thread that sends them.

Adding takes no lock and starts nothing, for it may happen within garbage collection, where the lock
could be held by the very code that was interrupted. What does not fit is dropped, oldest first.
"""

from __future__ import annotations

import os
import threading
import time
from _thread import LockType
from collections import deque
from contextvars import Context
from itertools import count
from typing import Any, Callable

from tallystick.sending.records import Noted

MAX_BATCH = 5_000
# Reasons for which records are dropped; others are a response's status or an error's name.
QUEUE_FULL = "queue full"
PAUSED = "paused"
_SECONDS_A_DAY = 86_400.0
_REST_SECONDS = 0.1
_TOO_OFTEN = "status 429"
_LONGEST_SLOWED_SECONDS = 3_600.0


class Delivery:
    """`load` imports what sending needs, in the thread of a caller: were a process forked off while
    a thread of ours imports, the same import in the child would wait forever.
    """

    _longest_wait = _SECONDS_A_DAY
    _kept = 0  # records that are neither queued nor sent nor dropped

    def __init__(
        self,
        load: Callable[[], None],
        make_sender: Callable[[], Any],
        *,
        interval: float,
        max_queue: int,
        report: Callable[[str], None],
    ) -> None:
        self._load = load
        self._make_sender = make_sender
        self._usual_interval = interval
        self._max_queue = max_queue
        # Sending takes a while, during which the other half is filled.
        self._enough = max(1, min(MAX_BATCH, max_queue // 2))
        self._report = report
        self.spool_error: str | None = None  # why there is no spool, if the program wants one
        self.reset()

    def reset(self) -> None:
        """As new: a forked process has neither the thread nor a right to the parent's records."""
        # Nine to eleven tenths, so that processes started together do not send together.
        self._interval = self._usual_interval * (0.9 + os.getpid() % 101 / 500)
        self._queue: deque[Noted] = deque(maxlen=self._max_queue)
        self._numbers = count()
        self._sent = self._in_flight = 0
        self._refused: dict[str, int] = {}  # by reason
        self._last_error: str | None = None
        self._flushes: deque[Any] = deque()
        self._thread: threading.Thread | None = None
        self.is_started = False
        self._starting = threading.Lock()
        self._make_lock: Callable[[], Any] = threading.Lock
        self._wake: Any = None
        self._resting: Any = None  # the lock of a thread that is to end
        self.is_closing = self._is_over = False
        self._paused_until = 0.0

    # For everyone

    def put(self, record: Noted) -> None:
        next(self._numbers)
        self._queue.append(record)
        if len(self._queue) >= self._enough:
            self._rouse()

    def start(self) -> None:
        """Start the thread if needed; never called within garbage collection."""
        if self._thread is None and self._starting.acquire(False):
            try:
                if self._thread is None:
                    self._load()
                    # Of the thread's own kind: gevent may have replaced both since this process
                    # began, and a greenlet that waits for a lock of the system's stops all others.
                    self._make_lock = threading.Lock
                    wake = threading.Lock()
                    wake.acquire()
                    self._wake = wake
                    thread = threading.Thread(target=self._run, name="tallystick", daemon=True)
                    self._thread = thread  # even where it cannot start: asking again would not help
                    self.is_started = True
                    # A thread may inherit the caller's context, which other tools send along.
                    Context().run(thread.start)
            finally:
                self._starting.release()

    def flush(self, timeout: float | None) -> bool:
        """Send the queue within the timeout, and return True if all of it was accepted."""
        if not self._queue and not self._in_flight:
            return True
        failed = self._failed()
        self.start()
        done = self._make_lock()
        done.acquire()
        self._flushes.append(done)
        self._rouse()
        if self._is_over:  # what came after the end stays where it is
            return False
        longest = _SECONDS_A_DAY if timeout is None else timeout
        is_done = bool(done.acquire(timeout=max(0.0, min(longest, _SECONDS_A_DAY))))
        return is_done and self._failed() == failed

    def close(self, timeout: float | None) -> bool:
        """Flush and end the thread."""
        self.is_closing = True
        is_done = self.flush(timeout)
        self._rouse()
        return is_done

    def stats(self) -> dict[str, Any]:
        # Only the counter itself is exact: two threads might store their numbers in either order.
        captured = int(repr(self._numbers)[len("count(") : -1])
        waiting, reasons = len(self._queue), dict(self._refused)
        dropped = max(0, captured - self._sent - self._in_flight - waiting - self._kept)
        overflowed = dropped - sum(reasons.values())
        if overflowed > 0:
            reasons[QUEUE_FULL] = overflowed
        counters = {
            "captured": captured,
            "sent": self._sent,
            "queued": waiting,
            "dropped": dropped,
            "dropped_by_reason": reasons,
            "last_error": self._last_error,
        }
        return {**counters, "spool_error": self.spool_error} if self.spool_error else counters

    @property
    def has_backlog(self) -> bool:
        """Check for records of earlier processes."""
        return False

    @property
    def is_paused(self) -> bool:
        return time.monotonic() < self._paused_until

    def _failed(self) -> int:
        return sum(self._refused.values()) + self._kept

    def _rouse(self) -> None:
        try:
            self._wake.release()
        except (RuntimeError, AttributeError):
            pass  # roused already, or there is nobody yet

    def rest(self) -> None:
        """End the thread if it has nothing to do; the next call starts another.

        From Python 3.12 on, a process is warned if it forks while it has a second thread.
        """
        thread, wake = self._thread, self._wake
        if thread is None or self._has_work() or type(wake) is not LockType:  # gevent has no thread
            return
        self._resting = wake
        self._rouse()
        thread.join(_REST_SECONDS)
        self._resting = None
        if thread.is_alive():  # busy all the same
            return
        until = time.monotonic() + _REST_SECONDS
        # The system's thread ends a little later, and that is what Python counts.
        while os.path.exists(f"/proc/self/task/{thread.native_id}") and time.monotonic() < until:
            time.sleep(0.0005)
        self._thread, self.is_started, self._is_over = None, False, False
        if self._has_work():
            self.start()
            self._rouse()

    def _has_work(self) -> bool:
        return bool(self._queue or self._in_flight or self._flushes or self.has_backlog)

    # In the thread

    def _run(self) -> None:
        try:
            self._serve(self._make_sender())
        except Exception as error:  # a thread that ends by an exception would print it
            self._report(f"sending stopped: {type(error).__name__}")
        finally:
            self._is_over = True

    def _serve(self, sender: Any) -> None:
        wake, due = self._wake, time.monotonic() + self._interval
        while True:
            wake.acquire(timeout=max(0.0, min(due - time.monotonic(), self._longest_wait)))
            while self._wake is not wake:  # gevent's threads are forked, too: this is the parent's
                wake.acquire()
            if self._resting is wake and not self._has_work():
                return
            flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
            if flushes or self.is_closing or time.monotonic() >= due:
                self._send(sender, 1)
                due = time.monotonic() + self._interval
            else:
                self._send(sender, self._enough)
            for done in flushes:
                done.release()
            if self.is_closing and not self._flushes:
                return

    def _send(self, sender: Any, least: int) -> None:
        """Send the current queue in batches while there are enough records for one.

        What is added meanwhile waits for the next time: a busy program would keep this up for ever,
        with smaller and smaller batches.
        """
        waiting = len(self._queue)
        while waiting >= least:
            # Set before the records leave the queue, so that `stats` never counts them as lost.
            self._in_flight = size = min(MAX_BATCH, waiting)
            waiting -= size
            batch = [self._queue.popleft() for _ in range(size)]
            if self.is_paused:
                self._refuse(len(batch), PAUSED)
            else:
                answer = sender.send(batch)
                self._sent += answer.taken
                lost = len(batch) - answer.taken
                if lost:
                    self._paused_until = time.monotonic() + answer.pause_seconds
                    self._slow_down(answer.reason)
                    self._refuse(lost, answer.reason)
                    self._last_error = answer.reason
                    self._report(f"{records(lost, 'was', 'were')} dropped: {answer.reason}")
            self._in_flight = 0

    def _slow_down(self, reason: str) -> None:
        """Send half as often, if the service says that all processes of a key send too often."""
        if reason == _TOO_OFTEN:
            self._interval = max(self._interval, min(self._interval * 2, _LONGEST_SLOWED_SECONDS))

    def _refuse(self, count: int, reason: str) -> None:
        """Count records that were dropped, before they stop being in flight."""
        self._refused[reason] = self._refused.get(reason, 0) + count


def records(count: int, one: str, many: str) -> str:
    """Return a number of records and the verb that agrees with it."""
    return f"1 record {one}" if count == 1 else f"{count} records {many}"
