"""One Chromium and one running service for the tests of this folder.

Playwright keeps an event loop running between its calls, in the thread that started it, and a
thread with a running loop can't run another. So Chromium and the tests of this folder have their
own thread, which doesn't affect other tests of the process.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from functools import wraps
from typing import Any, Final

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import MISSING, find_chromium, launched
from tests.browser.site import BrowsedSystem, Site, fill, started_site_system
from tests.browser.windows import Windows
from tests.smtp_sink import Sink, running_sink

_THREAD: Final[Executor] = ThreadPoolExecutor(max_workers=1, thread_name_prefix="browser")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Every test of this folder runs in the thread of its browser."""
    if isinstance(item, pytest.Function):
        item.obj = _in_thread(item.obj)


def _in_thread(test: Callable[..., None]) -> Callable[..., None]:
    @wraps(test)
    def run(**arguments: Any) -> None:
        _THREAD.submit(test, **arguments).result()

    return run


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        pytest.skip(MISSING)
    with ExitStack() as stack:
        yield _THREAD.submit(stack.enter_context, launched(path)).result()
        _THREAD.submit(stack.close).result()


@pytest.fixture(scope="session")
def windows(browser: Browser, site: Site) -> Iterator[Windows]:
    with ExitStack() as stack:
        yield _THREAD.submit(stack.enter_context, Windows(browser, site)).result()
        _THREAD.submit(stack.close).result()


@pytest.fixture(scope="session")
def sink() -> Iterator[Sink]:
    with running_sink() as sink:
        yield sink


@pytest.fixture(scope="session")
def system(sink: Sink) -> Iterator[BrowsedSystem]:
    with started_site_system(sink) as system:
        yield system


@pytest.fixture(scope="session")
def site(system: BrowsedSystem, sink: Sink) -> Site:
    return fill(system, sink)
