"""Turn capture on and off, record calls, flush and read counters."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tallystick import capture, ending
from tallystick.capture import Capture, Settings
from tallystick.labels import clean_label, clean_tag, current_session, current_tag
from tallystick.reading.providers import name_hosts
from tallystick.sending.dsn import VARIABLE, parse_dsn
from tallystick.sending.making import (
    Folder,
    Way,
    checked_hash,
    checked_hosts,
    checked_streams,
    hash_key,
    make_delivery,
    seconds,
    warn,
    within,
)
from tallystick.sending.processes import Forks, Termination
from tallystick.sending.records import Asked, Record, is_provider, write_record

if TYPE_CHECKING:
    from tallystick.sending.revising import BeforeSend

FLUSH_INTERVAL_SECONDS = 60.0
MAX_QUEUE = 5_000
_LONGEST_INTERVAL_SECONDS = 604_800.0
_LONGEST_QUEUE = 1_000_000
CLOSE_SECONDS = 2.0
_LONGEST_EXIT_SECONDS = 60.0

_forks: Forks | None = None
_termination: Termination | None = None
_has_warned = False
_setup_error: str | None = None
_starting = threading.Lock()


def init(
    *,
    dsn: str | None = None,
    tag: str | None = None,
    environment: str | None = None,
    prefix_hash: bool = False,
    prefix_hash_key: str | bytes | None = None,
    flush_interval: float = FLUSH_INTERVAL_SECONDS,
    max_queue: int = MAX_QUEUE,
    exit_timeout: float = ending.EXIT_SECONDS,
    providers: Mapping[str, str] | None = None,
    include_usage: bool | Iterable[str] = False,
    allow_http: bool = False,
    retry: bool = False,
    spool: Folder | None = None,
    before_send: BeforeSend | None = None,
    debug: bool = False,
) -> None:
    """Count every call of the model providers from now on, and send the counts to `dsn`.

    The default is the variable `SERVICE_DSN`; without either, nothing happens. A second call
    changes nothing. `http://` to another machine needs `allow_http=True`. A process waits at its
    exit for at most `exit_timeout` seconds, or two seconds if that is longer and SIGTERM ends it.
    `providers` names the model provider behind each host that is not a provider's own, such as
    `{"llm.example.com": "azure"}`. `include_usage` asks for the usage of chat streams, of all hosts
    or of those that it names, and hides the chunk that it comes in. A batch that the network or the
    service fails is dropped, or posted once more with `retry=True`, or kept in the folder that
    `spool` names. `before_send` gets each record before it leaves, and returns it with other
    labels, or None to drop it.
    """
    global _setup_error
    text = os.environ.get(VARIABLE, "") if dsn is None else str(dsn)
    if not text.strip() or capture.active is not None:
        return
    destination = parse_dsn(text)
    if destination is None:
        _warn_once(f"{VARIABLE} is not of the form https://<INGEST_KEY>@<host>")
        return
    if destination.is_exposed and allow_http is not True:
        _warn_once(
            f"{VARIABLE} would send the ingest key unencrypted; use https://, or pass"
            " allow_http=True to init() if you trust the network"
        )
        return
    key = hash_key(prefix_hash_key)
    settings = Settings(
        label=clean_tag(tag),
        environment=clean_tag(environment),
        # With an unusable key nothing is hashed: without one, prompts could be guessed.
        prefix_hash=bool(prefix_hash if prefix_hash_key is None else key),
        prefix_hash_key=key,
        flush_interval=within(
            0.05, flush_interval, _LONGEST_INTERVAL_SECONDS, FLUSH_INTERVAL_SECONDS
        ),
        max_queue=int(within(1, max_queue, _LONGEST_QUEUE, MAX_QUEUE)),
        exit_timeout=within(0, exit_timeout, _LONGEST_EXIT_SECONDS, ending.EXIT_SECONDS),
        include_usage=checked_streams(include_usage),
        debug=bool(debug),
    )
    if _starting.acquire(False):  # otherwise another thread is initializing
        try:
            name_hosts(checked_hosts(providers))
            _start(settings, Way(destination, retry is True, spool, before_send))
            _setup_error = None
        except Exception as error:  # without `active`, a partial setup does nothing
            capture.active, _setup_error = None, type(error).__name__
            _warn_once(f"init() failed: {_setup_error}")
        finally:
            _starting.release()


def flush(timeout: float | None = CLOSE_SECONDS) -> bool:
    """Send the queue now, wait at most `timeout` seconds, and return True if all was accepted.

    None waits without a limit.
    """
    current = capture.active
    if current is None:
        return True
    ending.count_read_responses(current)
    return current.delivery.flush(timeout)


def close(timeout: float | None = CLOSE_SECONDS) -> None:
    """Send the queue and stop capturing until `init()` is called again."""
    current = capture.active
    if current is not None:
        atexit.unregister(ending.at_exit)
        if _termination is not None:
            _termination.remove()
        ending.end_open_streams(current)
        capture.active = None
        current.delivery.close(timeout)


def stats() -> dict[str, Any]:
    """Return the counters of this process; empty while capture is off, except for `setup_error`.

    `captured` records became `sent`, `queued` or `dropped`, which `dropped_by_reason` explains.
    `uncaptured` calls by endpoint made no record; those `without_usage` cost tokens all the same.
    """
    current = capture.active
    if current is not None:
        return current.stats()
    return {} if _setup_error is None else {"setup_error": _setup_error}


def record(
    *,
    model: str,
    prompt_tokens: int,
    completion_tokens: int,
    provider: str = "openai",
    ts: datetime | None = None,
    cached_tokens: int | None = None,
    cache_write_tokens: int | None = None,
    latency_ms: float | None = None,
    endpoint: str | None = None,
    request_id: str | None = None,
    tag: str | None = None,
    declared_max_tokens: int | None = None,
    prefix_hash: str | None = None,
    prefix_hash_16k: str | None = None,
    prefix_hash_64k: str | None = None,
    environment: str | None = None,
    session_id: str | None = None,
    service_tier: str | None = None,
    cache_write_1h_tokens: int | None = None,
    reasoning_tokens: int | None = None,
    audio_prompt_tokens: int | None = None,
    audio_completion_tokens: int | None = None,
    image_prompt_tokens: int | None = None,
    image_completion_tokens: int | None = None,
    web_searches: int | None = None,
    status: str | None = None,
    region: str | None = None,
    units: Mapping[str, float] | None = None,
    reported_usd: float | None = None,
    prefix_hashes: Sequence[str] | None = None,
    billing: str | None = None,
) -> bool:
    """Count a call that no hook sees, and return False if the service would reject it.

    `units` are what else was billed, by the price book's names of units, such as
    `{"audio_seconds": 63.5}`.
    """
    current = capture.active
    if current is None:
        return False
    try:
        asked = Asked(
            provider=provider,
            endpoint=endpoint,
            tag=clean_tag(tag) or current_tag() or current.settings.label,
            declared_max_tokens=declared_max_tokens,
            prefix_hash=checked_hash(prefix_hash),
            prefix_hash_16k=checked_hash(prefix_hash_16k),
            prefix_hash_64k=checked_hash(prefix_hash_64k),
            environment=clean_label(environment) or current.settings.environment,
            session_id=clean_label(session_id) or current_session(),
        )
        counts = (prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens)
        parts: dict[str, Any] = {
            "service_tier": service_tier,
            "cache_write_1h_tokens": cache_write_1h_tokens,
            "audio_prompt_tokens": audio_prompt_tokens,
            "audio_completion_tokens": audio_completion_tokens,
            "image_prompt_tokens": image_prompt_tokens,
            "image_completion_tokens": image_completion_tokens,
            "web_searches": web_searches,
            "status": status,
            "region": region,
            "units": units,
            "reported_usd": reported_usd,
            "prefix_hashes": prefix_hashes,
            "billing": billing,
        }
        noted = Record(
            *(asked, seconds(ts), model, *counts, reasoning_tokens, latency_ms, request_id, parts)
        )
        if not is_provider(provider) or write_record(noted) is None:
            return False
        current.delivery.start()
        current.delivery.put(noted)
    except Exception:  # a value of the wrong type must not stop the program
        capture.note_fault()
        return False
    return True


def _start(settings: Settings, way: Way) -> None:
    global _forks, _termination
    if capture.active is not None:
        return
    from tallystick import hooks

    delivery = make_delivery(
        way,
        hooks.load_sending,
        warn if settings.debug else lambda message: None,  # warnings are only logged in debug mode
        interval=settings.flush_interval,
        max_queue=settings.max_queue,
    )
    capture.active = Capture(settings, delivery)
    if _forks is None:
        _forks = Forks(_renew, ending.at_exit, ending.at_server_end)
        if sys.version_info >= (3, 12):
            os.register_at_fork(before=ending.before_fork)
    if _termination is None:
        _termination = Termination(ending.at_termination)
    _termination.install()
    atexit.register(ending.at_exit)
    hooks.install()
    if delivery.has_backlog:
        delivery.start()


def _renew() -> None:
    global _starting
    try:
        _starting = threading.Lock()
        current = capture.active
        if current is not None:
            current.delivery.reset()
            capture.active = Capture(current.settings, current.delivery)
    except Exception:  # it would be printed
        capture.note_fault()


def _warn_once(problem: str) -> None:
    """Warn once, without the variable's value, which may contain a key."""
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warn(f"{problem}; no call is captured")
