"""gunicorn's worker and logger, taught to repeat nothing of a request that is no proper HTTP.

By itself gunicorn quotes the malformed line or chunk in its answer and in its log, and a line may
be a report link, a chunk part of a record.
"""

from http import HTTPStatus
from typing import Any, Final

from gunicorn.config import Config as GunicornConfig
from gunicorn.glogging import Logger
from gunicorn.http.errors import (
    ExpectationFailed,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)
from gunicorn.util import write_error
from gunicorn.workers.gthread import ThreadWorker

from service.logs import configure_logging, get_logger

_STATUS: Final[tuple[tuple[type[Exception], HTTPStatus], ...]] = (
    (LimitRequestLine, HTTPStatus.REQUEST_URI_TOO_LONG),
    (LimitRequestHeaders, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    (ExpectationFailed, HTTPStatus.EXPECTATION_FAILED),
    (UnsupportedTransferCoding, HTTPStatus.NOT_IMPLEMENTED),
    (ParseException, HTTPStatus.BAD_REQUEST),
    (Exception, HTTPStatus.INTERNAL_SERVER_ERROR),
)

_log = get_logger(__name__)


class WebWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """The threaded worker, answering what it cannot parse by its kind alone."""

    def handle_error(self, _request: Any, client: Any, _address: Any, error: Exception) -> None:
        status = next(status for kind, status in _STATUS if isinstance(error, kind))
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.error("request_failed", exc_info=error)
        else:
            _log.info("request_unreadable", error_type=type(error).__name__, status=status.value)
        try:
            write_error(client, status.value, status.phrase, "")
        except OSError:
            _log.debug("client_gone")


class WebLogger(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's own messages, as JSON lines among the service's."""

    def setup(self, cfg: GunicornConfig) -> None:
        super().setup(cfg)
        configure_logging(cfg.loglevel.upper())
        for handler in list(self.error_log.handlers):
            self.error_log.removeHandler(handler)
        self.error_log.propagate = True
