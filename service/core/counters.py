"""Counters of each process: requests, webhooks, and the stages of audits.

Labels never contain anything that a caller sent.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

# Used if processes don't share counters.
REGISTRY: Final = CollectorRegistry()

_REQUEST_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_STAGE_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)

REQUESTS: Final = Counter(
    "tallystick_requests",
    "Requests by route, method and status.",
    ("route", "method", "status"),
    registry=REGISTRY,
)
REQUEST_SECONDS: Final = Histogram(
    "tallystick_request_seconds",
    "Time from the first byte read to the response.",
    ("route", "method"),
    buckets=_REQUEST_BUCKETS,
    registry=REGISTRY,
)
WEBHOOKS: Final = Counter(
    "tallystick_webhooks",
    "Payment provider webhooks: accepted, refused (not authentic or not readable) or failed.",
    ("provider", "outcome"),
    registry=REGISTRY,
)
SECURITY_EVENTS: Final = Counter(
    "tallystick_security_events",
    "Sign-ins, new and revoked secrets, and refusals.",
    ("kind",),
    registry=REGISTRY,
)
STAGE_SECONDS: Final = Histogram(
    "tallystick_audit_stage_seconds",
    "Duration of each stage of an audit.",
    ("stage",),
    buckets=_STAGE_BUCKETS,
    registry=REGISTRY,
)
ATTEMPTS: Final = Counter(
    "tallystick_audit_starts",
    "Attempts at audits by outcome; a killed attempt has none.",
    ("end",),
    registry=REGISTRY,
)


@contextmanager
def timed(stage: str, audits: int = 1) -> Iterator[None]:
    """Record how long the block took for a stage of each of some audits, unless it fails."""
    started = time.perf_counter()
    yield
    share = (time.perf_counter() - started) / audits
    for _ in range(audits):
        STAGE_SECONDS.labels(stage).observe(share)
