"""Runs the jobs of an audit on Spark: named, watched, cancelled when the audit is given up."""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow

from detectors.distributed.spark.reasons import SparkUnreachableError, explain
from detectors.frames.spark import CONNECT_SECONDS, is_remote

_POLL_SECONDS: Final = 0.05
_PROBE_SECONDS: Final = 3.0
_AWAY_SECONDS: Final = 12.0  # a server that restarts within them has forgotten its sessions


class Jobs:
    """The jobs of one audit, under one name in Spark's pages."""

    def __init__(
        self, session: Any, steps: int, progress: Callable[[int, int], None] | None
    ) -> None:
        self.name = f"tallystick-{uuid4().hex[:12]}"
        self.session = session
        self._steps, self._done, self._progress = steps, 0, progress
        self._probe = _Probe(session)

    def collect(self, frame: Any, description: str) -> pyarrow.Table:
        """Run a job in a thread, so that it can be given up at any time, and return its rows.

        Progress is reported now and then, because what it raises ends the audit.
        """
        results, errors = list[pyarrow.Table](), list[BaseException]()
        named = f"Tallystick audit: {description}"

        def run() -> None:
            try:
                if is_remote(self.session):
                    self.session.addTag(self.name)
                else:
                    self.session.sparkContext.setJobGroup(self.name, named, interruptOnCancel=True)
                results.append(frame.toArrow())
            except BaseException as error:  # raised again where the caller waits
                errors.append(error)

        thread = Thread(target=run, name=self.name, daemon=True)
        thread.start()
        next_look = time.monotonic() + _PROBE_SECONDS
        try:
            while thread.is_alive():
                thread.join(_POLL_SECONDS)
                if time.monotonic() >= next_look:
                    next_look = time.monotonic() + _PROBE_SECONDS
                    self._probe.check()
                    self._report()
        except BaseException:
            self.cancel()
            raise
        if errors:
            raise explain(errors[0]) from errors[0]
        self._done += 1
        self._report()
        return results[0]

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._steps)

    def cancel(self) -> None:
        """Cancel what runs; a server that is away has nothing to cancel."""

        def cancel() -> None:
            with suppress(Exception):
                if is_remote(self.session):
                    self.session.interruptTag(self.name)
                else:
                    self.session.sparkContext.cancelJobGroup(self.name)

        thread = Thread(target=cancel, daemon=True)
        thread.start()
        thread.join(_PROBE_SECONDS)


class _Probe:
    """Checks now and then that the server which runs the jobs is there.

    Spark's own clients would wait for ten minutes.
    """

    def __init__(self, session: Any) -> None:
        self._session = session
        address = None  # of the Connect server or of the first standalone master
        if is_remote(session):
            endpoint = getattr(session.client._builder, "endpoint", "")
            host, _, port = str(endpoint).rpartition(":")
            address = (host, int(port)) if host else None
        else:
            master = urlsplit(str(session.sparkContext.master).partition(",")[0])
            if master.scheme == "spark" and master.hostname and master.port:
                address = (master.hostname, master.port)
        # Behind a proxy, it doesn't answer to us.
        self._address = address if address and _answers(address) else None
        self._seen = time.monotonic()

    def check(self) -> None:
        if self._address is None:
            return
        is_there = _answers(self._address)
        if not is_there and not is_remote(self._session):
            # A classic session can go on without its master; the first executor is the driver.
            infos = self._session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
            is_there = len(infos) > 1
        if is_there:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > _AWAY_SECONDS:
            raise SparkUnreachableError(is_remote(self._session))


def _answers(address: tuple[str, int]) -> bool:
    with suppress(OSError), socket.create_connection(address, CONNECT_SECONDS):
        return True
    return False
