"""Holding audits while they run: a thread that renews their leases until they end."""

import threading
import time
from collections.abc import Sequence
from typing import Final, Self

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.core.logs import get_logger
from service.core.telemetry.counters import LEASE_RENEWALS
from service.models.audits.leases import Claim, renew_lease

_RENEWALS_PER_LEASE: Final = 3

_log = get_logger(__name__)


class LeaseLostError(Exception):
    """Another worker may hold the audit now, so this attempt must not publish."""


class HeldLeases:
    """Renew the leases of some claims in a separate thread with its own connections."""

    def __init__(self, engine: Engine, claims: Sequence[Claim], lease_seconds: float) -> None:
        self._engine = engine
        self._held = list(claims)
        self._lease_seconds = lease_seconds
        self._ended = threading.Event()
        self._lost: set[str] = set()
        self.was_away = False  # the database, or too slow, when a lease was to be renewed
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def check(self, claim: Claim) -> None:
        """Raise `LeaseLostError` if the claim's lease is known to be lost."""
        if claim.audit_id in self._lost:
            raise LeaseLostError

    def _renew(self) -> None:
        while self._held and not self._ended.wait(self._lease_seconds / _RENEWALS_PER_LEASE):
            for claim in list(self._held):
                began = time.monotonic()
                try:
                    with self._engine.begin() as connection:
                        is_held = renew_lease(connection, claim, self._lease_seconds)
                except SQLAlchemyError as error:
                    # The lease lasts for two more tries. If they fail too, the fence decides.
                    self.was_away = True
                    LEASE_RENEWALS.labels("failed").inc()
                    _log.warning("lease_not_renewed", error_type=type(error).__name__)
                    continue
                self.was_away |= (
                    time.monotonic() - began > self._lease_seconds / _RENEWALS_PER_LEASE
                )
                LEASE_RENEWALS.labels("renewed" if is_held else "lost").inc()
                if not is_held:
                    self._held.remove(claim)
                    self._lost.add(claim.audit_id)
