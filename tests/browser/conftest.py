"""One Chromium and one running service for the tests of this folder.

They last as long as the folder's tests, not as long as the process: Playwright's event loop runs
in the main thread, where the tests of other folders run their own.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import MISSING, find_chromium, launched
from tests.browser.site import BrowsedSystem, Site, fill, started_site_system
from tests.smtp_sink import Sink, running_sink


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = find_chromium()
    if path is None:
        pytest.skip(MISSING)
    with launched(path) as browser:
        yield browser


@pytest.fixture(scope="package")
def sink() -> Iterator[Sink]:
    with running_sink() as sink:
        yield sink


@pytest.fixture(scope="package")
def system(sink: Sink) -> Iterator[BrowsedSystem]:
    with started_site_system(sink) as system:
        yield system


@pytest.fixture(scope="package")
def site(system: BrowsedSystem, sink: Sink) -> Site:
    return fill(system, sink)
