"""The real worker process, with audits that a test can slow down, hold or make deadly.

`python -m tests.worker.support.held_worker`. In the folder AUDIT_CONTROL, every audit that runs
leaves a file `audit-<id>-<attempt>.<pid>` while it does; a file `delay` there holds the seconds
that it first waits, and a file `poison` makes it kill its own process. Audits that are computed
together wait once.
"""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import worker
from service.config import Config
from service.jobs.claiming import Tools
from service.jobs.process import run_worker
from service.models.audits.leases import Claim

CONTROL = Path(os.environ["AUDIT_CONTROL"])
compute = worker.compute


def held_compute(claims: Sequence[Claim], *more: Any) -> Any:
    names = [f"audit-{claim.audit_id}-{claim.attempt}.{os.getpid()}" for claim in claims]
    marks = [CONTROL / name for name in names]
    delay = CONTROL / "delay"
    # Before they are marked as running: who waited for a mark may change the delay for the next.
    seconds = float(delay.read_text()) if delay.exists() else 0.0
    for mark in marks:
        mark.touch()
    try:
        if (CONTROL / "poison").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(seconds)
        return compute(claims, *more)
    finally:
        for mark in marks:
            mark.unlink()


if __name__ == "__main__":
    worker.compute = held_compute  # type: ignore[assignment]
    # The real one runs an audit first, which makes the next ones quicker: here, most processes run
    # one audit or none. The workers of `tallystick up` keep it.
    worker.warm_up = Tools.keep  # type: ignore[assignment]
    run_worker(Config.load())
