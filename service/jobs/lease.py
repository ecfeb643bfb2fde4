"""Holding an audit while it runs: a thread that renews the lease until the audit ends."""

import threading
from typing import Final, Self

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.core.logs import get_logger
from service.models.audits.leases import Claim, renew_lease

_RENEWALS_PER_LEASE: Final = 3

_log = get_logger(__name__)


class LeaseLostError(Exception):
    """Another worker may hold the audit now, so this attempt must not publish."""


class HeldLease:
    """Renew the lease of a claim in a separate thread with its own connections."""

    def __init__(self, engine: Engine, claim: Claim, lease_seconds: float) -> None:
        self._engine = engine
        self._claim = claim
        self._lease_seconds = lease_seconds
        self._ended = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def check(self) -> None:
        """Raise `LeaseLostError` if the lease is known to be lost."""
        if self._lost.is_set():
            raise LeaseLostError

    def _renew(self) -> None:
        while not self._ended.wait(self._lease_seconds / _RENEWALS_PER_LEASE):
            try:
                with self._engine.begin() as connection:
                    is_held = renew_lease(connection, self._claim, self._lease_seconds)
            except SQLAlchemyError as error:
                # The lease lasts for two more tries. If they fail too, the fence decides.
                _log.warning("lease_not_renewed", error_type=type(error).__name__)
                continue
            if not is_held:
                self._lost.set()
                return
