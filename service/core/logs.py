"""JSON log lines, one per event, each with the request ID.

Never logged: records, keys, tokens, query strings, raw paths, or the text of an exception, which
may quote input. Errors are logged by type and location.
"""

import logging
import sys
import traceback
from typing import Final, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from service.core.telemetry.error_reports import report_error
from service.core.telemetry.log_bounds import RepeatedLines

_HANDLER_NAME: Final = "tallystick"
_REPEATS_PER_MINUTE: Final = 600
_REPORTED: Final = ("error", "critical")


def get_logger(name: str) -> FilteringBoundLogger:
    return cast(FilteringBoundLogger, structlog.stdlib.get_logger(name))


def configure_logging(level: str, repeats_per_minute: int = _REPEATS_PER_MINUTE) -> None:
    """Format the logs of all packages in this process as JSON, and bound lines that repeat."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _describe_exception,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.set_name(_HANDLER_NAME)
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
    )
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for previous in list(root.handlers):
        if previous.get_name() == _HANDLER_NAME:
            root.removeHandler(previous)
    root.addHandler(handler)
    root.setLevel(level)
    # Alembic logs each step at INFO.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # The pool logs at INFO when it is made and closed.
    logging.getLogger("service.core.db").setLevel(logging.WARNING)
    # Authlib logs tokens and codes at DEBUG.
    logging.getLogger("authlib").setLevel(logging.WARNING)
    handler.addFilter(RepeatedLines(repeats_per_minute))


def _describe_exception(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace an exception with its type and frames, because its message may contain input."""
    raised = event.pop("exc_info", None)
    error = raised if isinstance(raised, BaseException) else None
    if error is None and raised:
        error = (raised if isinstance(raised, tuple) else sys.exc_info())[1]
    if error is None:
        return event
    record = event.get("_record")
    if isinstance(record, logging.LogRecord):
        record.exc_info = record.exc_text = None
    if event.get("level") in _REPORTED:
        report_error(error, event)
    event["error_type"] = f"{type(error).__module__}.{type(error).__qualname__}"
    frames = traceback.extract_tb(error.__traceback__)
    event["traceback"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return event
