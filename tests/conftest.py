"""The servers that tests run against: real ones, one set a test process, migrated once.

And what is told at the end: the table of promises, and what could not run.
"""

import gc
import logging
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from service.core.logs import configure_logging
from service.operations.local.servers import EmbeddedServers
from tests.databases import count_rows
from tests.embedded.stoppable import StoppableServers
from tests.groups import arrange, scheduler
from tests.left_behind import LeftBehind
from tests.run_folder import keep_run_folder
from tests.running import (
    ONE_OF_EACH,
    Up,
    make_clone,
    make_data_of_earlier_release,
    make_open_python,
    open_program,
)
from tests.templates import make_data_folder
from tests.worker.support.promises import STRESS_SECONDS, WITHOUT_STRESS, Note

# What the list of the slowest tests may show.
_SLOW_SECONDS: Final = 0.1
_DAY_SECONDS: Final = 86_400
_BEFORE_MIDNIGHT_SECONDS: Final = 10
_promises: list[tuple[str, int, int]] = []
# Almost nothing that collection makes is garbage; looking for it took a fifth of the time.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    keep_run_folder(config)
    _leave_out_stress(config)
    _send_what_matters(config)
    # As every program does; by default, structlog takes a second to draw an exception's frames.
    configure_logging("INFO")
    # The client's tests check that nothing is printed beside what the program prints.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _leave_out_stress(config: pytest.Config) -> None:
    """Let no process of xdist make the stress tests of a run that deselects them."""
    if config.option.markexpr.startswith("not stress"):
        os.environ[WITHOUT_STRESS] = "1"


def _send_what_matters(config: pytest.Config) -> None:
    """Let a process of xdist keep to itself that a quick setup or teardown of a test passed.

    Nobody sees these, and they are two of the three messages of most tests.
    """
    plugins = config.pluginmanager.get_plugins()
    for plugin in (one for one in plugins if type(one).__name__ == "WorkerInteractor"):
        plugin.sendevent = partial(_send_unless_quiet, plugin.sendevent)


def _send_unless_quiet(send: Callable[..., None], name: str, **event: Any) -> None:
    if not _says_nothing(name, event):
        send(name, **event)


def _says_nothing(name: str, event: dict[str, Any]) -> bool:
    if name != "testreport":
        return False
    report = event["data"]
    is_quick = report["outcome"] == "passed" and report["duration"] < _SLOW_SECONDS
    return bool(is_quick and report["when"] != "call")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("stress") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(STRESS_SECONDS))
    arrange(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let tests that share a server share a process, whatever --dist says."""
    return scheduler(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the collector pass over what stays: looking at all tests again and again took a tenth."""
    gc.freeze()
    gc.set_threshold(7_000, 10, 10)  # ten times as rarely as by default
    gc.enable()
    session.config.pluginmanager.register(LeftBehind())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Let midnight in UTC pass first: a test and what it tests read the clock at the same day."""
    left = _DAY_SECONDS - time.time() % _DAY_SECONDS
    if left < _BEFORE_MIDNIGHT_SECONDS:
        time.sleep(left + 0.1)


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """A folder with a short path that other users may pass through, unlike pytest's own.

    PostgreSQL runs as another user where the tests run as root.
    """
    folder = Path(tempfile.mkdtemp(prefix="tallystick-tests-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def servers(servers_folder: Path) -> Iterator[EmbeddedServers]:
    """PostgreSQL and Valkey for every test of this process that leaves them running.

    A test that stops or kills servers starts a set of its own, on another folder.
    """
    make_data_folder(servers_folder / "shared", with_tables=True)
    with EmbeddedServers(servers_folder / "shared") as servers:
        yield servers


@pytest.fixture(scope="session")
def database_url(servers: EmbeddedServers) -> Iterator[str]:
    """The database, with its tables, for tests that roll back what they write.

    Rows that a test commits would be found by another one; such a test copies a database.
    """
    before = count_rows(servers.database_url)
    yield servers.database_url
    after = count_rows(servers.database_url)
    assert after == before, f"a test committed rows to the shared database: {after - before}"


@pytest.fixture(scope="session")
def redis_url(servers: EmbeddedServers) -> str:
    return servers.redis_url


@pytest.fixture
def data_folder(servers_folder: Path) -> Iterator[Path]:
    """A data folder of a test's own, without tables and without servers."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder))
    folder.chmod(0o711)
    make_data_folder(folder / "var", with_tables=False)
    yield folder / "var"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def private_servers(data_folder: Path) -> Iterator[StoppableServers]:
    """A set of servers, without tables, for one test to stop, kill and restart."""
    with StoppableServers(data_folder) as servers:
        yield servers


@pytest.fixture(scope="session")
def open_python(servers_folder: Path) -> dict[str, str]:
    return make_open_python(servers_folder)


@pytest.fixture(scope="session")
def up(servers_folder: Path, open_python: dict[str, str]) -> Iterator[Up]:
    """`tallystick up` in a folder like a fresh clone; as root, with an ordinary user's programs."""
    folder = make_data_of_earlier_release(make_clone(servers_folder) / "var")
    up = open_program(Up, open_python)(folder, **open_python, **ONE_OF_EACH, REFUSE_ROOT="1")
    yield up
    up.stop_in_order(signal.SIGTERM)


@pytest.fixture
def note() -> Note:
    """Add a line to the table, and fail where the promise was broken."""

    def write(promise: str, tries: int, losses: int) -> None:
        _promises.append((promise, tries, losses))
        assert losses == 0, f"{promise}: {losses} of {tries}"

    return write


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where everything can be installed, a test that was left out is a failure."""
    if os.environ.get("CI") and _left_out(session.config) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table of promises, and say which parts could not run here, and why."""
    if _promises:
        _print_promises(terminalreporter)
    left_out = _left_out(config)
    terminalreporter.section("left out")
    for reason, count in left_out.most_common():
        terminalreporter.write_line(f"{count} x {reason}")
    if not left_out:
        terminalreporter.write_line("nothing")


def _print_promises(terminalreporter: pytest.TerminalReporter) -> None:
    width = max(len(promise) for promise, _, _ in _promises)
    terminalreporter.section("promises under stress")
    terminalreporter.write_line(f"{'promise':<{width}}  {'tries':>7}  {'losses':>6}")
    for promise, tries, losses in _promises:
        terminalreporter.write_line(f"{promise:<{width}}  {tries:>7}  {losses:>6}")


def _left_out(config: pytest.Config) -> Counter[str]:
    """The reasons of skipped tests; a test process of xdist leaves counting to the main one."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", ()) if reporter else ()
    return Counter(_reason(report) for report in skipped)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return "no reason given"
