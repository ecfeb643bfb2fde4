"""The audits that job processes are running, as `held_worker` marks them."""

from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.worker.support.waiting import wait_until


@dataclass(frozen=True)
class RunningJob:
    """One audit that a job process is at, as `held_worker` marks it."""

    audit_id: str
    start: int
    pid: int


class Jobs:
    """The running jobs of one service, and the brake on them."""

    control: Path

    def delay_audits(self, seconds: float) -> None:
        whole = self.control / "delay-to-be"
        whole.write_text(str(seconds))
        whole.replace(self.control / "delay")  # at once: no audit reads half of it

    def running_jobs(self) -> list[RunningJob]:
        jobs = []
        for mark in sorted(self.control.glob("audit-*")):
            job_id, _, pid = mark.name.partition(".")
            _, audit_id, start = job_id.split("-")
            if psutil.pid_exists(int(pid)):
                jobs.append(RunningJob(audit_id, int(start), int(pid)))
        return jobs

    def wait_for_job(self, audit_id: str | None = None, seconds: float = 20) -> RunningJob:
        """The first running job, or the first of an audit."""

        def find() -> RunningJob | None:
            jobs = self.running_jobs()
            return next((job for job in jobs if audit_id in (None, job.audit_id)), None)

        found: RunningJob = wait_until(find, seconds)
        return found
