"""Liveness and readiness; the state of each component is for requests from inside only."""

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from threading import Lock, Thread
from typing import Any, Final, cast

from flask import Flask, current_app, request
from redis import RedisError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from service.config import Config
from service.core.blobs import BlobStore
from service.core.db import make_probe_engine
from service.core.logs import get_logger
from service.core.redis import connect
from service.errors import RETRY_SECONDS
from service.web.auth.admin_gate import may_administer
from service.web.http.current import draining
from service.web.openapi.blueprint import RETRY_AFTER, Blueprint
from service.web.schemas.ingest import HealthSchema

OK, DOWN = "ok", "down"
# Ingest works without Redis: queued audits wait in PostgreSQL for the sweeper.
_NEEDED_FOR_TRAFFIC: Final = ("database", "storage")
_FRESH_SECONDS: Final = 1.0
# The storage is asked less often while it works, because each look writes a file or is paid for.
_STORAGE_SECONDS: Final = 3.0
# A component that takes longer is down. Those who ask whether the process is alive wait no longer.
_PROBE_SECONDS: Final = 2.0
# Proxies add these, so a request with one of them comes from another machine.
_ADDED_BY_PROXIES: Final = ("X-Forwarded-For", "Forwarded", "X-Real-IP", "Via")

_log = get_logger(__name__)

blueprint = Blueprint("health", __name__, description="Liveness and readiness.")


@dataclass
class Health:
    """Cache the components' states for one second, and that the storage works for three.

    Each probe has a thread, which goes on after the deadline; until it ends, no other begins.
    """

    probes: dict[str, Callable[[], bool]]
    _running: dict[str, Future[bool]] = field(default_factory=dict)
    _storage_until: float = 0.0
    _states: dict[str, str] = field(default_factory=dict)
    _checked_at: float = -_FRESH_SECONDS
    _lock: Lock = field(default_factory=Lock)

    def states(self) -> dict[str, str]:
        with self._lock:
            if time.monotonic() - self._checked_at >= _FRESH_SECONDS:
                now, known = time.monotonic(), self._states
                for name, probe in self.probes.items():
                    if name == "storage" and known.get(name) == OK and now < self._storage_until:
                        continue
                    if name not in self._running or self._running[name].done():
                        self._running[name] = _start(probe)
                        if name == "storage":
                            self._storage_until = now + _STORAGE_SECONDS
                wait(self._running.values(), _PROBE_SECONDS)
                running = {name: self._running[name] for name in self.probes}
                self._states = {
                    n: OK if each.done() and each.result() else DOWN for n, each in running.items()
                }
                self._checked_at = time.monotonic()
            return self._states


def _start(probe: Callable[[], bool]) -> Future[bool]:
    found: Future[bool] = Future()

    def run() -> None:
        try:
            found.set_result(probe())
        except Exception as error:
            found.set_exception(error)

    Thread(target=run, name="probe", daemon=True).start()
    return found


def init_health(app: Flask, config: Config) -> None:
    blobs: BlobStore = app.extensions["blobs"]
    engine = make_probe_engine(config)
    redis = connect(config)

    def is_database_up() -> bool:
        try:
            with engine.connect() as connection:
                connection.execute(text("SELECT 1"))
        except SQLAlchemyError:
            return False
        return True

    def is_redis_up() -> bool:
        try:
            return bool(redis.ping())
        except (RedisError, OSError):
            return False

    def is_storage_up() -> bool:
        try:
            return blobs.is_usable()
        except OSError as error:
            _log.warning("storage_unusable", error_type=type(error).__name__, reason=error.strerror)
            return False

    app.extensions["health"] = Health(
        {"database": is_database_up, "redis": is_redis_up, "storage": is_storage_up}
    )


@blueprint.route("/healthz", methods=["GET"])
@blueprint.documented(operation="get_health", media_type="text/html", errors={})
@blueprint.response(200, HealthSchema, description="The process is running.")
def healthz() -> dict[str, Any]:
    """Check whether the process is alive; requests from inside get each component's state."""
    states = _health().states()
    return _document(all(state == OK for state in states.values()), states)


@blueprint.route("/readyz", methods=["GET"])
@blueprint.documented(operation="get_readiness", media_type="text/html", errors={})
@blueprint.alt_response(
    503, schema=HealthSchema, headers=RETRY_AFTER, description="Don't send traffic."
)
@blueprint.response(200, HealthSchema, description="Ready for traffic.")
def readyz() -> Any:
    """Check whether this process should receive traffic."""
    states = _health().states()
    is_ready = not draining and all(states[name] == OK for name in _NEEDED_FOR_TRAFFIC)
    headers = {} if is_ready else {"Retry-After": str(RETRY_SECONDS)}
    return _document(is_ready, states), 200 if is_ready else 503, headers


def _document(is_ok: bool, states: dict[str, str]) -> dict[str, Any]:
    status = {"status": OK if is_ok else "degraded"}
    is_from_inside = may_administer() or (
        _is_loopback(request.remote_addr or "")
        and not any(name in request.headers for name in _ADDED_BY_PROXIES)
    )
    return {**status, "components": states} if is_from_inside else status


def _is_loopback(text: str) -> bool:
    try:
        address = ip_address(text)
    except ValueError:  # a Unix socket has no address
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _health() -> Health:
    return cast(Health, current_app.extensions["health"])
