"""The real worker process, with audits that a test can slow down, hold or make deadly.

`python -m tests.worker.support.held_worker`. In the folder AUDIT_CONTROL, every audit that runs
leaves a file `<job id>.<pid>` while it does; a file `delay` there holds the seconds that an audit
first waits, and a file `poison` makes it kill its own process.
"""

import os
import signal
import time
from pathlib import Path
from typing import Any

import detectors
from service.config import Config
from service.jobs.process import run_worker

CONTROL = Path(os.environ["AUDIT_CONTROL"])


def held_audit(source: Any, **options: Any) -> Any:
    mark = CONTROL / f"{os.environ['RQ_JOB_ID']}.{os.getpid()}"
    delay = CONTROL / "delay"
    # Before it is marked as running: who waited for the mark may change the delay for the next.
    seconds = float(delay.read_text()) if delay.exists() else 0.0
    mark.touch()
    try:
        if (CONTROL / "poison").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(seconds)
        # Not `detectors.audit`, which is this function now.
        return detectors.__getattr__("audit")(source, **options)
    finally:
        mark.unlink()


if __name__ == "__main__":
    detectors.audit = held_audit
    run_worker(Config.load())
