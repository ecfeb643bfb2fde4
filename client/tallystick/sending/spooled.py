"""Delivery by way of a spool: records are written to disk every second until they are accepted.

What the network or the service fails stays on disk, for this process or the next.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable

from tallystick.sending.delivery import PAUSED, Delivery, records
from tallystick.sending.records import Noted, reason_of
from tallystick.sending.spool import Segment, Spool

WRITE_SECONDS = 1.0
_LOCK_SECONDS = 0.5


class SpooledDelivery(Delivery):
    """Writes the queue to a spool, and sends from there."""

    _longest_wait = WRITE_SECONDS

    def __init__(
        self,
        spool: Spool,
        write: Callable[[list[Noted]], list[str]],
        *arguments: Any,
        **options: Any,
    ) -> None:
        self._spool = spool
        self._write_lines = write
        super().__init__(*arguments, **options)

    def reset(self) -> None:
        super().reset()
        self._spool.forget()
        self._writing = threading.Lock()
        # The thread counts, and so does `close()`, which a signal may call while it runs already.
        self._counting = threading.RLock()
        self._kept = self._recovered = 0
        self._kept_segments: dict[str, int] = {}
        self._unwritten: list[str] = []  # the disk is full

    def close(self, timeout: float | None) -> bool:
        """Flush and end the thread; what could not be sent in time is on disk afterwards."""
        is_done = super().close(timeout)
        if not is_done:
            self._write()
            if self._is_over:
                self._release()
        return is_done

    def stats(self) -> dict[str, Any]:
        """Return the counters, with records of this and of earlier processes in the spool.

        `spooled` are those left on disk after a failure; `recovered` were sent for others.
        """
        with self._counting:
            counters = super().stats()
            counters["queued"] += self._in_flight
            return {**counters, "spooled": self._kept, "recovered": self._recovered}

    @property
    def has_backlog(self) -> bool:
        return self._spool.has_segments

    def _run(self) -> None:
        super()._run()
        self._release()

    def _serve(self, sender: Any) -> None:
        self._send_others(sender)
        super()._serve(sender)

    def _send(self, sender: Any, least: int) -> None:
        self._write()
        if least > 1 and self._in_flight < least:
            return
        with self._writing:
            segments = self._spool.take()
            unwritten, self._unwritten = self._unwritten, []
        for segment in segments:
            if self.is_paused:
                self._keep(segment, PAUSED)
                continue
            answer = sender.send_lines(segment.read())
            if answer.is_temporary:
                self._pause(answer)
                self._keep(segment, answer.reason)
                continue
            self._add(sent=answer.taken, in_flight=-answer.taken)
            self._drop(segment.lines - answer.taken, answer.reason)
            self._spool.discard(segment)
        if unwritten:
            answer = sender.send_lines(unwritten)
            self._pause(answer)
            self._add(sent=answer.taken, in_flight=-answer.taken)
            self._drop(len(unwritten) - answer.taken, answer.reason)
        if least == 1:
            self._send_others(sender)

    def _write(self) -> None:
        """Move the queue to disk; the thread does, and at the end anyone who closes."""
        if not self._writing.acquire(timeout=_LOCK_SECONDS):
            return
        try:
            waiting = len(self._queue)
            while waiting:
                size = min(waiting, self._spool.room())
                waiting -= size
                self._add(in_flight=size)  # before they leave the queue: `stats` never loses one
                batch = [self._queue.popleft() for _ in range(size)]
                try:
                    lines, reason = self._write_lines(batch), reason_of(self._write_lines)
                except Exception as error:
                    lines, reason = [], type(error).__name__
                self._drop(size - len(lines), reason)
                if lines and not self._spool.append(lines):
                    self._unwritten += lines
        finally:
            self._writing.release()

    def _keep(self, segment: Segment, reason: str) -> None:
        self._last_error = reason
        self._kept_segments[segment.path] = segment.lines
        self._add(kept=segment.lines, in_flight=-segment.lines)
        segment.release()
        self._report(f"{records(segment.lines, 'stays', 'stay')} in the spool: {reason}")

    def _send_others(self, sender: Any) -> None:
        """Send what is left on disk, oldest first, until that fails."""
        while not self.is_paused:
            segment = self._spool.claim()
            if segment is None:
                return
            lines = segment.read()
            answer = sender.send_lines(lines) if lines else None
            if answer is not None and answer.is_temporary:
                self._pause(answer)
                segment.release()
                return
            taken = answer.taken if answer else 0
            own = self._kept_segments.pop(segment.path, 0)
            if own:
                self._add(sent=taken, kept=-own)
                self._drop(own - taken, "invalid record", was_in_flight=False)
            else:
                self._recovered += taken
            self._spool.discard(segment)

    def _pause(self, answer: Any) -> None:
        self._slow_down(answer.reason)
        if answer.pause_seconds:
            self._paused_until = time.monotonic() + answer.pause_seconds

    def _drop(self, count: int, reason: str, *, was_in_flight: bool = True) -> None:
        if count:
            with self._counting:
                self._refuse(count, reason)
                self._add(in_flight=-count if was_in_flight else 0)
            self._last_error = reason
            self._report(f"{records(count, 'was', 'were')} dropped: {reason}")

    def _add(self, *, in_flight: int = 0, sent: int = 0, kept: int = 0) -> None:
        with self._counting:
            self._sent += sent
            self._kept += kept
            self._in_flight += in_flight

    def _release(self) -> None:
        """Leave what is on disk to other processes, once the thread is over."""
        if self._writing.acquire(timeout=_LOCK_SECONDS):
            try:
                self._spool.forget()
            finally:
                self._writing.release()
