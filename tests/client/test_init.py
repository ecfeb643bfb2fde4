"""Turning it on: where from, how often, and what happens where it stays off."""

import logging
import sys
import threading
from typing import Any

import pytest

import tallystick
from tallystick import capture, client
from tallystick.sending.dsn import Destination, parse_dsn
from tests.cases import data_of, each_case
from tests.client.collector import Collector
from tests.client.environments import run
from tests.client.offline import capturing, openai_client, queued
from tests.client.styles import CHAT
from tests.lazily import anthropic, openai
from tests.worker.support.promises import sampled

KEY = "ik_" + "a" * 38
DSNS = {name: [each.replace("KEY", KEY) for each in of] for name, of in data_of(__file__).items()}
OFF = """
import atexit, os, sys, threading
before = set(sys.modules)
finders, hooks = list(sys.meta_path), atexit._ncallbacks()
import tallystick
tallystick.init(tag="x", prefix_hash=True)
import openai
assert not hasattr(openai._base_client.SyncAPIClient.request, "__wrapped__")
assert sys.meta_path == finders and threading.active_count() == 1
assert not {name for name in sys.modules if name.startswith("tallystick.hooks")}
assert tallystick.stats() == {} and tallystick.flush() and tallystick.close() is None
assert not tallystick.record(model="m", prompt_tokens=1, completion_tokens=1)
with tallystick.tag("x"):
    pass
"""
LAZY = """
import sys
import tallystick
tallystick.init()
assert not {"openai", "anthropic", "ssl", "urllib.request", "http.client"} & set(sys.modules)
import openai, anthropic
assert "tallystick.sending.transport" in sys.modules
for library in (openai, anthropic):
    for name in ("SyncAPIClient", "AsyncAPIClient"):
        assert hasattr(getattr(library._base_client, name).request, "__tallystick_original__")
    assert hasattr(library._response.BaseAPIResponse._parse, "__tallystick_original__")
    assert hasattr(library._streaming.Stream.close, "__tallystick_original__")
    loader = library._base_client.__spec__.loader
    assert type(loader).__name__ == type(library._base_client.__loader__).__name__
    assert type(loader).__name__ == "SourceFileLoader", loader
assert hasattr(openai._legacy_response.LegacyAPIResponse._parse, "__tallystick_original__")
import inspect
inspect.getsource(openai._base_client)
"""


@pytest.mark.parametrize("dsn", sampled([None, "", "  "], 3, ["unset", "empty", "blank"]))
def test_without_a_dsn_nothing_happens(dsn: str | None) -> None:
    run(sys.executable, "-c", OFF, **({} if dsn is None else {"SERVICE_DSN": dsn}))


def test_libraries_are_hooked_when_the_program_imports_them() -> None:
    run(sys.executable, "-c", LAZY, SERVICE_DSN="https://ik_x@localhost")


@each_case(
    ("dsn", "url"),
    [
        (f"https://{KEY}@tallystick.example", "https://tallystick.example"),
        (f"https://{KEY}@tallystick.example/", "https://tallystick.example"),
        (f" https://{KEY}@host:8443/base/ \n", "https://host:8443/base"),
        (f"http://{KEY}@localhost:8000", "http://localhost:8000"),
        (f"http://{KEY}@[::1]:8000", "http://[::1]:8000"),
        (f"https://{KEY}@[::1]", "https://[::1]"),
    ],
)
def test_a_dsn_is_an_address_and_a_key(dsn: str, url: str) -> None:
    destination = parse_dsn(dsn)
    assert destination == Destination(url, KEY)
    assert destination.ingest_url(2) == f"{url}/api/v2/ingest"
    assert KEY not in repr(destination)


@each_case("dsn", [*DSNS["malformed"], f"https://{KEY}@h:" + "9" * 5_000])
def test_a_malformed_dsn_is_one_warning_without_the_key(
    dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    monkeypatch.setattr(client, "_has_warned", False)
    monkeypatch.setenv("SERVICE_DSN", dsn)
    tallystick.init()
    tallystick.init()
    assert capture.active is None
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert "SERVICE_DSN" in warning.message
    assert KEY not in caplog.text


@each_case("dsn", DSNS["remote"])
def test_http_to_another_machine_is_refused_with_one_warning(
    dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    monkeypatch.setattr(client, "_has_warned", False)
    with capturing(dsn):
        tallystick.init()
        assert capture.active is None
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert "allow_http=True" in warning.message
    assert KEY not in caplog.text


@each_case(
    ("dsn", "options"),
    [
        *((dsn, {}) for dsn in DSNS["local"]),
        *((dsn, {"allow_http": True}) for dsn in DSNS["remote"]),
    ],
)
def test_http_is_accepted_on_this_machine_or_if_it_is_allowed(
    dsn: str, options: dict[str, bool], caplog: pytest.LogCaptureFixture
) -> None:
    with capturing(dsn, **options):
        assert capture.active is not None
    assert not caplog.records


@each_case("value", [None, 1, "yes", "True"])
def test_only_true_allows_http(value: object) -> None:
    with capturing(DSNS["remote"][0], allow_http=value):
        assert capture.active is None


@pytest.mark.usefixtures("captured")
def test_a_second_init_does_nothing() -> None:
    first = capture.active
    tallystick.init(tag="other")
    assert capture.active is first
    openai_client().chat.completions.create(**CHAT)
    (record,) = queued()
    assert "tag" not in record
    method: Any = openai._base_client.SyncAPIClient.request
    assert not hasattr(method.__tallystick_original__, "__tallystick_original__")


def test_only_one_of_two_threads_turns_it_on(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    made: list[Any] = []
    inside = threading.Event()

    def install() -> None:
        made.append(capture.active)
        if len(made) > 1:
            return
        thread = threading.Thread(target=tallystick.init)
        with monkeypatch.context() as patch:
            patch.setattr(capture, "active", None)  # as the other thread found it
            thread.start()
            thread.join(10)
        inside.set()

    monkeypatch.setattr("tallystick.hooks.install", install)
    with capturing(collector.dsn):
        assert inside.is_set()
        assert made == [capture.active]


def test_an_init_that_fails_stops_nothing_and_is_logged_once(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(client, "_has_warned", False)
    with monkeypatch.context() as patch:
        patch.setattr("tallystick.hooks.install", fail)
        for _ in range(2):
            tallystick.init(dsn=collector.dsn)
    assert capture.active is None
    openai_client().chat.completions.create(**CHAT)  # as without the client
    assert tallystick.stats() == {"setup_error": "ZeroDivisionError"}
    (warning,) = caplog.records
    assert "ZeroDivisionError" in warning.message
    tallystick.init(dsn=collector.dsn)
    assert "setup_error" not in tallystick.stats()
    tallystick.close(0)
    assert tallystick.stats() == {}


@pytest.mark.usefixtures("captured")
def test_after_closing_nothing_is_captured_until_the_next_init() -> None:
    tallystick.close()
    openai_client().chat.completions.create(**CHAT)
    assert tallystick.stats() == {}
    tallystick.init()
    openai_client().chat.completions.create(**CHAT)
    assert len(queued()) == 1


@each_case(
    ("options", "expected"),
    [
        ({"tag": "a", "environment": "b"}, ("a", "b")),
        ({"environment": "b"}, (None, "b")),
        ({"tag": "", "environment": "b"}, (None, "b")),
        ({"tag": "x" * 300}, ("x" * 120, None)),
        ({"environment": "y" * 300}, (None, "y" * 120)),
        ({"tag": "a\x00b\nc\x85\ud800"}, ("abc", None)),
        ({"tag": "\x00"}, (None, None)),
        ({"tag": 5}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_tag_and_environment_are_cleaned_labels(
    options: dict[str, str], expected: tuple[str | None, str | None], collector: Collector
) -> None:
    with capturing(collector.dsn, **options):
        openai_client().chat.completions.create(**CHAT)
        (record,) = queued()
    assert (record.get("tag"), record.get("environment")) == expected


@each_case("value", [None, "x", True, -5, float("nan"), float("inf"), 0, 1e30])
def test_a_wrong_setting_is_not_used_and_stops_nothing(value: object, collector: Collector) -> None:
    with capturing(collector.dsn, flush_interval=value, max_queue=value):
        current = capture.active
        assert current is not None
        assert current.settings.flush_interval == client.FLUSH_INTERVAL_SECONDS
        assert current.settings.max_queue == client.MAX_QUEUE


def test_a_library_that_moved_a_method_keeps_the_other_hooks(
    monkeypatch: pytest.MonkeyPatch, collector: Collector
) -> None:
    monkeypatch.delattr(anthropic._response, "BaseAPIResponse")
    monkeypatch.delattr(anthropic._base_client, "AsyncAPIClient")
    with capturing(collector.dsn):
        assert hasattr(anthropic._base_client.SyncAPIClient.request, "__wrapped__")


def test_no_thread_runs_before_the_first_call(collector: Collector) -> None:
    before = threading.active_count()
    with capturing(collector.dsn):
        assert threading.active_count() == before
