"""Killed workers and jobs lose no audit and publish no report twice; a deadly audit fails."""

import os
import random
import signal
import time
from dataclasses import fields
from typing import Any

import pytest

from service.config import Config
from tests.worker.support.jobs import RunningJob
from tests.worker.support.promises import Note, at_a_twentieth, in_full_only, scaled
from tests.worker.support.system import System
from tests.worker.support.waiting import kill, wait_until, wait_until_ended

DETECTION_SECONDS = 60.0


def test_a_dead_worker_is_noticed_once_its_short_lease_has_ended(system: System) -> None:
    """Job and worker at once, beside an idle worker."""
    system.delay_audits(3.0)
    (audit_id,) = system.ingest()
    job = system.wait_for_job(audit_id)
    kill_parts(system, job, ("worker", "job"))
    system.delay_audits(0.0)
    system.wait_done([audit_id], DETECTION_SECONDS)
    assert system.audit(audit_id).attempts == 2
    assert system.reports_of([audit_id]) == {audit_id: 1}


def test_the_default_lease_and_sweep_leave_20_of_the_60_seconds() -> None:
    defaults: dict[str, Any] = {field.name: field.default for field in fields(Config)}
    assert defaults["lease_seconds"] * 7 / 6 <= DETECTION_SECONDS - 20


@pytest.mark.stress
@pytest.mark.timeout(1800)
def test_a_dead_worker_is_noticed_within_60_seconds_by_default(
    default_system: System, note: Note
) -> None:
    """Job, worker and both, killed at once, beside an idle worker."""
    system = default_system
    system.delay_audits(3.0)
    audit_ids = system.ingest(3)
    jobs = [system.wait_for_job(audit_id) for audit_id in audit_ids]
    for job, parts in zip(jobs, (("job",), ("worker",), ("worker", "job")), strict=True):
        kill_parts(system, job, parts)
    killed_at = time.monotonic()
    system.delay_audits(0.0)
    system.wait_done(audit_ids, DETECTION_SECONDS)

    assert time.monotonic() - killed_at <= DETECTION_SECONDS
    # The job that only lost its worker came to its end alone.
    assert [system.audit(audit_id).attempts for audit_id in audit_ids] == [2, 1, 2]
    losses = sum(count != 1 for count in system.reports_of(audit_ids).values())
    note("13 a dead worker is noticed within 60 s", len(audit_ids), losses)


@at_a_twentieth
def test_no_audit_is_lost_or_doubled(system: System, note: Note, share: float) -> None:
    system.delay_audits(0.2)
    audit_ids = system.ingest_at_once(scaled(200, share))
    breakages = _breakages(share)
    for number, breakage in enumerate(breakages, 1):
        # Spread over the whole run, so that there is always something left to break.
        _wait_until_done(system, len(audit_ids) * number // (len(breakages) + 2))
        _break(system, breakage)
    system.wait_done(audit_ids, 120)

    reports = system.reports_of(audit_ids)
    broken = sum(count != 1 for count in reports.values())
    missing = len(audit_ids) - len(reports)
    frames = sum(not (system.blobs / system.audit(one).frame_key).exists() for one in audit_ids)
    note("2 no audit lost or doubled", len(audit_ids), broken + missing + frames)


@in_full_only
def test_an_orphaned_job_comes_to_its_end_alone(system: System, note: Note, share: float) -> None:
    """By default, the next test has such an orphan, which comes too late to publish."""
    tries, losses = scaled(20, share), 0
    for _ in range(tries):
        system.delay_audits(1.0)
        (audit_id,) = system.ingest()
        kill_parts(system, system.wait_for_job(audit_id), ("worker",))
        system.wait_done([audit_id], 20)
        losses += system.reports_of([audit_id]) != {audit_id: 1}
    note("14 an orphaned job publishes once", tries, losses)


@at_a_twentieth
def test_an_orphaned_job_cannot_publish(system: System, note: Note, share: float) -> None:
    """An orphan that stood still until another start was done finds the fence closed."""
    tries, losses = scaled(20, share), 0
    for _ in range(tries):
        system.delay_audits(0.5)
        (audit_id,) = system.ingest()
        orphan = system.wait_for_job(audit_id)
        # In this order: the kernel ends a job that stands still while it becomes an orphan.
        kill_parts(system, orphan, ("worker",))
        os.kill(orphan.pid, signal.SIGSTOP)
        system.wait_done([audit_id], 30)
        published = system.audit(audit_id)
        os.kill(orphan.pid, signal.SIGCONT)
        wait_until_ended(orphan.pid)

        frames = [path.name for path in (system.blobs / "frames").glob(f"{audit_id}-*")]
        losses += not (
            system.audit(audit_id) == published
            and published.attempts == 2
            and frames == [f"{audit_id}-2.parquet"]
            and system.reports_of([audit_id]) == {audit_id: 1}
        )
    note("14 an orphaned job cannot publish", tries, losses)


def kill_parts(system: System, job: RunningJob, parts: tuple[str, ...]) -> None:
    """SIGKILL to the job, to its worker, or to both; a killed worker is replaced."""
    worker = system.worker_of(job)
    if "worker" in parts and worker is not None:
        system.kill_process(worker)
    if "job" in parts:
        kill(job.pid)
    if "worker" in parts and worker is not None:
        system.start_process(worker)


def _breakages(share: float) -> list[tuple[str, ...] | str]:
    each = scaled(10, share)
    kills: list[tuple[str, ...] | str] = [
        *[("job",)] * each,
        *[("worker",)] * each,
        *[("worker", "job")] * each,
        *["flush"] * scaled(3, share),
        *["redis"] * scaled(2, share),
    ]
    random.Random(2).shuffle(kills)
    return kills


def _break(system: System, breakage: tuple[str, ...] | str) -> None:
    if breakage == "flush":
        system.flush_redis()
    elif breakage == "redis":
        system.kill_redis()
    else:
        kill_parts(system, _victim(system), tuple(breakage))


def _victim(system: System) -> RunningJob:
    """A running job. An audit in its last start is spared: killed once more, it has to fail."""

    def find() -> RunningJob | None:
        return next((job for job in system.running_jobs() if job.start < 3), None)

    job: RunningJob = wait_until(find, 60)
    return job


def _wait_until_done(system: System, audits: int) -> None:
    wait_until(lambda: system.statuses().get("done", 0) >= audits, 600)
