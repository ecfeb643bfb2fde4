"""What the tests of a file must leave to those after them in their process as they found it."""

import io
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import structlog

_SPARKS_FOLDER: Final = "userFiles-"
# What a library that is imported or started sets for good.
_KEPT: Final = ("PYTEST_", "SPARK_", "PYSPARK_", "JAVA_", "COVERAGE_", "COV_CORE_")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1)
# Those of programs that tests run in their own process.
_LOGGERS: Final = ("alembic", "authlib", "gunicorn", "rq", "service", "sqlalchemy", "tallystick")
# A logger that nobody has changed.
_FRESH: Final[tuple[object, ...]] = (logging.NOTSET, True, False, [])


class LeftBehind:
    """Compares the process after each file with what it was before the first."""

    def __init__(self) -> None:
        self._before = _describe()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        yield
        if nextitem is None or nextitem.path != item.path:
            before, self._before = self._before, _describe()
            changed = sorted(
                name
                for name in before.keys() | self._before.keys()
                if before.get(name, _FRESH) != self._before.get(name, _FRESH)
            )
            assert not changed, f"{item.path.name} left behind: {', '.join(changed)}"


def _describe() -> dict[str, object]:
    """The state of this process by name, without values that a message must not show."""
    manager = logging.root.manager
    loggers = {"root": logging.root, **manager.loggerDict}
    return {
        "the current folder": Path.cwd(),
        "sys.path": tuple(each for each in sys.path if _SPARKS_FOLDER not in each),
        "the timeout of sockets": socket.getdefaulttimeout(),
        "the size that files may have": resource.getrlimit(resource.RLIMIT_FSIZE),
        "logging.disable": manager.disable,
        "structlog": structlog.get_config()["wrapper_class"],
        "the context of log lines": structlog.contextvars.get_contextvars(),
        **{f"${name}": value for name, value in os.environ.items() if not name.startswith(_KEPT)},
        **{f"the handler of {each.name}": _handler(each) for each in _SIGNALS},
        **{
            f"the logger {name}": _state(logger)
            for name, logger in loggers.items()
            if isinstance(logger, logging.Logger) and name.startswith(("root", *_LOGGERS))
        },
    }


def _handler(number: signal.Signals) -> object:
    """The handler of a signal; the one that Spark adds for good calls the one before it."""
    found = signal.getsignal(number)
    is_sparks = str(getattr(found, "__module__", "")).startswith("pyspark")
    return signal.default_int_handler if is_sparks else found


def _state(logger: logging.Logger) -> tuple[object, ...]:
    """What decides where the lines of a logger go, without the handlers of pytest and libraries."""
    handlers = [
        (type(each), isinstance(getattr(each, "stream", None), io.StringIO))
        for each in logger.handlers
        if not isinstance(each, logging.NullHandler) and "_pytest" not in type(each).__module__
    ]
    return logger.level, logger.propagate, logger.disabled, handlers
