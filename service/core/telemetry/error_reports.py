"""Report unexpected errors to Sentry, if `SENTRY_DSN` is set: their types and locations.

No message, value, header, query or address is sent: an error's text may quote what a caller sent.
The SDK is loaded at a process's first error. It collects nothing on its own, and each event is
rebuilt from the fields that we allow, so that nothing leaves which a later version adds.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from traceback import extract_tb
from types import TracebackType
from typing import Any, Final, cast
from urllib.parse import urlsplit

from service.config import Config

_ROOT: Final = f"{Path(__file__).parents[3]}/"
_PACKAGES: Final = "site-packages/"
# Of the same error at the same place, a process reports so many; the log has the others.
_MOST_ALIKE: Final = 10
_MOST_KINDS: Final = 500
_FLUSH_SECONDS: Final = 2.0
_ALLOWED: Final = frozenset(
    [
        "event_id",
        "timestamp",
        "platform",
        "level",
        "logger",
        "release",
        "environment",
        "exception",
        "tags",
    ]
)
# Fields of a log line that become tags: our own IDs, and patterns of routes.
_TAGS: Final = ("event", "request_id", "audit_id", "mail_id", "delivery_id", "job_id", "account_id")


class ErrorReports:
    """The reports of one process and of those that it forks."""

    def __init__(self, dsn: str, base_url: str) -> None:
        self._dsn = dsn
        self._environment = urlsplit(base_url).hostname or "unknown"
        self._release = f"tallystick@{version('tallystick-server')}"
        self._process_id = 0
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._lock = Lock()

    def report(self, error: BaseException, line: Mapping[str, Any]) -> None:
        """Send the error in the background, unless many like it were sent."""
        tags = {name: str(line[name]) for name in _TAGS if line.get(name)}
        event: dict[str, Any] = {
            "level": "error",
            "platform": "python",
            "logger": str(line.get("logger", "")),
            "tags": tags,
            "exception": {
                "values": [
                    {
                        "module": type(each).__module__,
                        "type": type(each).__qualname__,
                        "stacktrace": {"frames": _frames_of(each.__traceback__)},
                    }
                    for each in reversed(list(chain_of(error)))  # the cause first
                ]
            },
        }
        frames = event["exception"]["values"][-1]["stacktrace"]["frames"]
        place = frames[-1] if frames else {}
        name = f"{type(error).__module__}.{type(error).__qualname__}"
        kind = (name, str(place.get("filename")), str(place.get("lineno")))
        import sentry_sdk

        with self._lock:
            if self._process_id != os.getpid():  # the parent must have no threads
                sentry_sdk.init(
                    self._dsn,
                    release=self._release,
                    environment=self._environment,
                    default_integrations=False,
                    auto_enabling_integrations=False,
                    auto_session_tracking=False,
                    enable_backpressure_handling=False,
                    enable_metrics=False,
                    include_local_variables=False,
                    include_source_context=False,
                    max_breadcrumbs=0,
                    max_request_body_size="never",
                    propagate_traces=False,
                    send_client_reports=False,
                    server_name="",
                    before_send=cast(Any, keep_allowed),
                )
                self._process_id = os.getpid()
            is_new = kind in self._seen or len(self._seen) < _MOST_KINDS
            if not is_new or self._seen[kind] >= _MOST_ALIKE:
                return
            self._seen[kind] += 1
        sentry_sdk.capture_event(cast(Any, event))

    def flush(self) -> None:
        """Wait until what was reported is sent, in a process that is about to exit."""
        if self._process_id == os.getpid():
            import sentry_sdk

            sentry_sdk.flush(_FLUSH_SECONDS)


_reports: ErrorReports | None = None


def start_reports(config: Config) -> None:
    """Report this process's errors from now on, if a DSN is set."""
    global _reports
    _reports = ErrorReports(config.sentry_dsn, config.base_url) if config.sentry_dsn else None


def report_error(error: BaseException, line: Mapping[str, Any]) -> None:
    """Report an error that is logged with this line, if reports are on."""
    if _reports is not None:
        # Whatever is wrong with the DSN or the SDK, the request or the job has its own end.
        with suppress(Exception):
            _reports.report(error, line)


def flush_reports() -> None:
    if _reports is not None:
        _reports.flush()


def keep_allowed(event: Mapping[str, Any], _hint: object = None) -> dict[str, Any]:
    """Return the event without every field that is not on the list."""
    return {name: value for name, value in event.items() if name in _ALLOWED}


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and its causes, each once."""
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        hidden = None if following.__suppress_context__ else following.__context__
        following = following.__cause__ or hidden


def _frames_of(traceback: TracebackType | None) -> list[dict[str, Any]]:
    return [
        {
            # Without the folder that the service is installed in.
            "filename": (
                name := frame.filename.partition(_PACKAGES)[2] or frame.filename.removeprefix(_ROOT)
            ),
            "function": frame.name,
            "lineno": frame.lineno,
        }
        | {"in_app": name.startswith(("service/", "detectors/", "worker"))}
        for frame in extract_tb(traceback)
    ]
