"""Counters of each process: requests, webhooks, jobs, stages of audits, connections, blobs.

Labels never contain anything that a caller sent, and each has few values. Each metric has a label:
without one, it would open its file when it is defined, and a process that forks others must count
nothing itself.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from service.core.telemetry.traces import stage_spans

# Used if processes don't share counters.
REGISTRY: Final = CollectorRegistry()

_REQUEST_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_STAGE_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_WAIT_BUCKETS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0)
_BLOB_BUCKETS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
_QUEUE_BUCKETS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)


def _counter(name: str, words: str, *labels: str) -> Counter:
    return Counter(name, words, labels, registry=REGISTRY)


def _histogram(name: str, words: str, buckets: Sequence[float], *labels: str) -> Histogram:
    return Histogram(name, words, labels, buckets=buckets, registry=REGISTRY)


REQUESTS: Final = _counter(
    "tallystick_requests", "Requests by route, method and status.", "route", "method", "status"
)
REQUEST_SECONDS: Final = _histogram(
    "tallystick_request_seconds",
    "Time from the first byte read to the response.",
    _REQUEST_BUCKETS,
    "route",
    "method",
)
SLOT_SECONDS: Final = _histogram(
    "tallystick_slot_wait_seconds",
    "Wait of a request for one of the web process's slots: served, or refused with a 503.",
    _WAIT_BUCKETS,
    "outcome",
)
CUT_CONNECTIONS: Final = _counter(
    "tallystick_cut_connections",
    "Connections that were closed because their client was too slow.",
    "reason",
)
REFUSED_BODIES: Final = _counter(
    "tallystick_refused_bodies",
    "Large bodies that were refused because others took the memory for them.",
    "reason",
)
ACCEPTED_RECORDS: Final = _counter(
    "tallystick_accepted_records", "Usage records that were accepted, by source.", "source"
)
AUDITED_RECORDS: Final = _counter(
    "tallystick_audited_records",
    "Usage records of published audits: of an import, or of all calls of an account.",
    "scope",
)
WEBHOOKS: Final = _counter(
    "tallystick_webhooks",
    "Payment provider webhooks: accepted, refused (not authentic or not readable) or failed.",
    "provider",
    "outcome",
)
SECURITY_EVENTS: Final = _counter(
    "tallystick_security_events", "Sign-ins, new and revoked secrets, and refusals.", "kind"
)
JOB_SECONDS: Final = _histogram(
    "tallystick_job_seconds",
    "Duration of jobs; a killed job has none.",
    _STAGE_BUCKETS,
    "kind",
    "outcome",
)
JOB_WAIT_SECONDS: Final = _histogram(
    "tallystick_job_wait_seconds", "Time from a job's wake-up to its start.", _QUEUE_BUCKETS, "kind"
)
STAGE_SECONDS: Final = _histogram(
    "tallystick_audit_stage_seconds", "Duration of each stage of an audit.", _STAGE_BUCKETS, "stage"
)
ATTEMPTS: Final = _counter(
    "tallystick_audit_starts", "Attempts at audits by outcome; a killed attempt has none.", "end"
)
OUTAGES: Final = _counter(
    "tallystick_outages",
    "Jobs that an outage of storage, database or network has ended; they are run again.",
    "kind",
    "cause",
)
LEASE_RENEWALS: Final = _counter(
    "tallystick_lease_renewals", "Renewals of audits' leases by outcome.", "outcome"
)
SWEEP_SECONDS: Final = _histogram(
    "tallystick_sweep_seconds",
    "Duration of each task of the leading sweeper's rounds.",
    _STAGE_BUCKETS,
    "task",
)
SWEEPER_ACTIONS: Final = _counter(
    "tallystick_sweeper_actions",
    "What the sweeper had to do for audits, mails, notices and blobs.",
    "action",
)
HOUSEKEEPING: Final = _counter(
    "tallystick_housekeeping_items", "Items that each chore of housekeeping has processed.", "chore"
)
PULLS: Final = _counter(
    "tallystick_connection_pulls",
    "Windows of providers' reports that were pulled, by outcome.",
    "provider",
    "outcome",
)
PRICE_UPDATES: Final = _counter(
    "tallystick_price_updates", "Tries to fetch the published prices, by outcome.", "outcome"
)
POOL_SECONDS: Final = _histogram(
    "tallystick_database_pool_wait_seconds",
    "Time until the pool gave a connection: ready, exhausted, or unavailable with the database.",
    _WAIT_BUCKETS,
    "outcome",
)
BLOB_SECONDS: Final = _histogram(
    "tallystick_blob_seconds", "Duration of operations of the storage.", _BLOB_BUCKETS, "operation"
)
BLOB_FAILURES: Final = _counter(
    "tallystick_blob_failures",
    "Operations of the storage that failed; a missing blob is no failure.",
    "operation",
)


@contextmanager
def timed(stage: str, audits: int = 1) -> Iterator[None]:
    """Record how long the block took for a stage of each of some audits, unless it fails."""
    started = time.perf_counter()
    with stage_spans(stage):
        yield
    share = (time.perf_counter() - started) / audits
    for _ in range(audits):
        STAGE_SECONDS.labels(stage).observe(share)


@contextmanager
def timed_blob(operation: str) -> Iterator[None]:
    """Record how long an operation of the storage took, or that it failed."""
    started = time.perf_counter()
    try:
        yield
    except FileNotFoundError:
        raise  # the storage has answered
    except OSError:
        BLOB_FAILURES.labels(operation).inc()
        raise
    BLOB_SECONDS.labels(operation).observe(time.perf_counter() - started)


@contextmanager
def timed_task(task: str) -> Iterator[None]:
    """Record how long a task of the sweeper took, unless it fails."""
    started = time.perf_counter()
    yield
    SWEEP_SECONDS.labels(task).observe(time.perf_counter() - started)
