"""Playwright's event loop doesn't affect tests of other folders."""

import asyncio
import threading

from playwright.sync_api import Browser


def test_the_loop_of_the_browser_runs_in_a_thread_of_its_own(browser: Browser) -> None:
    assert browser.is_connected()
    assert asyncio.get_running_loop().is_running()
    assert threading.current_thread() is not threading.main_thread()
