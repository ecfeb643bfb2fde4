"""Access the application's and request's objects: settings, storage, queues, session."""

import mmap
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Final, cast

from flask import Flask, current_app, g, request
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from service.config import Config
from service.core.blobs import BlobStore
from service.core.logs import get_logger
from service.jobs.queues import AuditQueues
from service.models.base import Executor
from service.payments.webhooks import Provider, load_providers

_log = get_logger(__name__)

# The key in the WSGI environment of a function for `without_slot`.
WITHOUT_SLOT: Final = "service.without_slot"
# The key of whether the server had no room for the request in time.
IS_BUSY: Final = "service.is_busy"


def init_current(app: Flask, config: Config, session_factory: sessionmaker[Session]) -> None:
    app.extensions["config"] = config
    app.extensions["blobs"] = BlobStore.from_url(config.storage_url)
    app.extensions["queues"] = AuditQueues.from_config(config)
    app.extensions["payment_providers"] = load_providers(config)
    app.extensions["session_factory"] = session_factory
    app.extensions["connect"] = session_factory.kw["bind"].connect

    @app.teardown_appcontext
    def close_session(_error: BaseException | None) -> None:
        session: Session | None = g.pop("session", None)
        if session is not None:
            try:
                session.close()
            except DBAPIError as error:
                # The response is ready; only its transaction's end failed: the database went away.
                _log.warning("session_not_closed", error_type=type(error).__name__)


def current_config() -> Config:
    return cast(Config, current_app.extensions["config"])


def current_blobs() -> BlobStore:
    return cast(BlobStore, current_app.extensions["blobs"])


def current_queues() -> AuditQueues:
    return cast(AuditQueues, current_app.extensions["queues"])


def find_payment_provider(name: str) -> Provider | None:
    """Return the payment provider if it is configured."""
    providers = cast("dict[str, Provider]", current_app.extensions["payment_providers"])
    return providers.get(name)


def without_slot() -> AbstractContextManager[None]:
    """Wait for something other than the processor, and let other requests run meanwhile.

    Leaving the context raises `UnavailableError` if the server has no slot in time.
    """
    context = request.environ.get(WITHOUT_SLOT, nullcontext)  # another server has no slots
    return cast("AbstractContextManager[None]", context())


def sleep_without_slot(seconds: float) -> None:
    with without_slot():
        time.sleep(seconds)


def current_session_factory() -> sessionmaker[Session]:
    """Return the factory, for a transaction separate from the request's own session.

    Its connection is released before the request's body is read, so slow senders hold none.
    """
    return cast("sessionmaker[Session]", current_app.extensions["session_factory"])


def connect() -> AbstractContextManager[Executor]:
    """Return a connection of its own, for statements without objects.

    A session would take half as long again for the few statements of a batch.
    """
    opened = current_app.extensions["connect"]()
    return cast("AbstractContextManager[Executor]", opened)


def get_session() -> Session:
    """Return the request's session, opened on first use and closed when the request ends."""
    if "session" not in g:
        g.session = current_session_factory()()
    session: Session = g.session
    return session


def get_connection() -> Connection:
    """Return the connection of the request's session, in the same transaction.

    A statement without objects takes two thirds of the time with it.
    """
    return get_session().connection()


def release_connection() -> None:
    """End the transaction of the request's session, if it has one, so that it holds none."""
    if "session" in g:
        g.session.rollback()


class Draining:
    """Say that load balancers should send no more requests, while requests are still answered.

    The flag is a byte of memory that the server's processes inherit.
    """

    def __init__(self) -> None:
        self._flag: mmap.mmap | bytearray = bytearray(1)

    def share(self) -> None:
        """Create a new flag, before the processes that will share it are forked."""
        self._flag = mmap.mmap(-1, 1)

    def start(self) -> None:
        self._flag[0] = 1

    def __bool__(self) -> bool:
        return bool(self._flag[0])


draining = Draining()
