"""Each guard alone: what of ours fails is counted, and the caller goes on."""

import asyncio
import importlib.util
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import tallystick
from tallystick import capture, client, ending, hooks
from tallystick.calls import Call
from tallystick.hooks import answers
from tallystick.sending.delivery import Delivery
from tallystick.sending.processes import Forks
from tests.client import offline
from tests.client.offline import queued
from tests.client.styles import ASKED, CHAT, CLAUDE, STREAMED

pytestmark = pytest.mark.usefixtures("captured")


def fail(*args: Any, **kwargs: Any) -> Any:
    raise ZeroDivisionError


def _active() -> capture.Capture:
    assert capture.active is not None
    return capture.active


def _ask_all() -> None:
    assert offline.openai_client().chat.completions.create(**CHAT).usage
    assert len(list(offline.openai_client().chat.completions.create(**STREAMED))) == 21
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    while next(stream, None) is not None:
        pass
    stream.close()
    assert offline.openai_client().responses.with_raw_response.create(**ASKED).parse().usage
    asyncio.run(_ask_all_async())


async def _ask_all_async() -> None:
    asynchronous = offline.async_openai_client().chat.completions
    assert (await asynchronous.create(**CHAT)).usage
    stream = await asynchronous.create(**STREAMED)
    assert len([item async for item in stream]) == 21
    await stream.close()


@pytest.mark.parametrize(
    "broken",
    [
        "tallystick.hooks.requests.begin",
        "tallystick.hooks.requests.end_or_attach",
        "tallystick.hooks.answers.follow",
        "tallystick.calls.Call.see",
        "tallystick.calls.Call._put",
        "tallystick.calls.members_of",
        "tallystick.calls.provider_of",
        "tallystick.hooks.streams._end_stream",
        "tallystick.hooks.answers._kind_of",
    ],
)
def test_a_part_that_fails_costs_records_and_no_call(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broken, fail)
    answers._kinds.clear()
    _ask_all()
    assert tallystick.stats()["faults"] > 0
    monkeypatch.undo()


def test_a_fault_that_cannot_be_counted_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "active", SimpleNamespace(__slots__=()))
    capture.note_fault()
    monkeypatch.setattr(capture, "active", None)
    capture.note_fault()


def test_an_exit_ends_what_is_open_and_waits_for_what_is_left() -> None:
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    next(stream)
    ending.at_exit()
    assert tallystick.stats()["queued"] == 0
    assert tallystick.stats()["captured"] == 1
    stream.close()


def test_a_second_exit_signal_does_not_wait_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes learn it from their library, and some by the interpreter, too."""
    waited: list[float] = []
    monkeypatch.setattr(Delivery, "flush", lambda self, timeout: waited.append(timeout))
    ending.at_exit()
    ending.at_exit()
    assert waited == [ending.EXIT_SECONDS]


def test_faults_at_an_exit_or_a_fork_are_not_shown(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    next(stream)
    with monkeypatch.context() as patch:
        patch.setattr(Call, "_put", fail)
        ending.end_open_streams(_active())
        patch.setattr(ending, "end_open_streams", fail)
        ending.at_exit()
        patch.setattr(_active().delivery, "reset", fail)
        client._renew()
    assert tallystick.stats()["faults"] == 3
    stream.close()
    assert capfd.readouterr() == ("", "")


def test_a_forked_process_starts_over() -> None:
    offline.openai_client().chat.completions.create(**CHAT)
    client._renew()
    assert queued() == []
    assert tallystick.stats()["captured"] == 0
    tallystick.close()
    client._renew()
    ending.at_exit()


def test_a_call_of_another_process_is_not_counted_here() -> None:
    stream = offline.anthropic_client().messages.create(**CLAUDE, stream=True)
    next(stream)
    client._renew()
    stream.close()
    assert queued() == []


def test_forking_libraries_are_hooked_once_and_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    told: list[Any] = []
    finalized: list[Any] = []
    util = SimpleNamespace(
        register_after_fork=lambda forks, act: told.append(act),
        Finalize=lambda of, act, exitpriority: finalized.append(act),
    )
    shutdown = SimpleNamespace(connect=lambda act, weak: told.append(act))
    monkeypatch.setattr(os, "register_at_fork", lambda **hooks: None)
    monkeypatch.setitem(sys.modules, "multiprocessing.util", util)
    signals = SimpleNamespace(worker_process_shutdown=shutdown)
    monkeypatch.setitem(sys.modules, "celery.signals", signals)
    forks = Forks(lambda: None, lambda: ended.append("ended"), lambda: None)
    forks._hook_libraries()
    assert len(told) == 2
    told[0](forks)
    finalized[0]()
    told[1](sender=None, pid=1)
    assert ended == ["ended", "ended"]
    monkeypatch.setitem(sys.modules, "celery.signals", SimpleNamespace())
    Forks(lambda: None, lambda: None, lambda: None)


def _finder() -> hooks._Finder:
    (finder,) = [one for one in sys.meta_path if isinstance(one, hooks._Finder)]
    return finder


def test_a_watched_import_returns_the_requested_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    seen: list[ModuleType] = []
    (tmp_path / "watched_module.py").write_text("x = 1")
    monkeypatch.syspath_prepend(tmp_path)
    hooks.when_imported({"watched_module": seen.append, "watched_nowhere": seen.append})
    module = importlib.import_module("watched_module")
    assert seen == [module]
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"  # type: ignore[union-attr]
    assert importlib.reload(module) is seen[1]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("watched_nowhere")
    spec = importlib.util.find_spec("watched_module")
    assert spec is not None
    del sys.modules["watched_module"]
    assert importlib.util.find_spec("watched_module").loader.get_filename()  # type: ignore


def test_failing_import_hooks_do_not_break_imports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "watched_too.py").write_text("x = 1")
    monkeypatch.syspath_prepend(tmp_path)
    hooks.when_imported({"watched_too": fail})
    assert importlib.import_module("watched_too").x == 1
    del sys.modules["watched_too"]
    monkeypatch.setattr(_finder(), "actions", SimpleNamespace(get=fail))
    assert importlib.import_module("watched_too").x == 1
    loader = hooks._NotifyingLoader(SimpleNamespace(exec_module=lambda module: None), fail)
    loader.exec_module(SimpleNamespace(__spec__=7))  # type: ignore[arg-type]
    assert tallystick.stats()["faults"] >= 3


def test_a_loader_of_the_old_kind_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    spec: Any = SimpleNamespace(loader=object())
    finder = hooks._Finder({"old": fail})
    old = SimpleNamespace(find_spec=lambda *wanted: spec)
    monkeypatch.setattr(sys, "meta_path", [finder, SimpleNamespace(), old])
    found: Any = finder.find_spec("old", None)
    assert found is spec
    assert not isinstance(found.loader, hooks._NotifyingLoader)


def test_a_module_without_what_is_hooked_stays_as_it_is_and_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(capture, "unhooked", set())
    assert "unhooked" not in tallystick.stats()
    for _ in range(2):
        hooks._hook_module(ModuleType("openai._response"))
        hooks._hook_elsewhere(ModuleType("botocore.client"))
        hooks._hook_elsewhere(ModuleType("cohere.core.http_client"))
    names = ["botocore.client", "cohere.core.http_client"]
    names.append("openai._response.BaseAPIResponse._parse")
    assert tallystick.stats()["unhooked"] == names
    assert len(caplog.records) == len(names)
