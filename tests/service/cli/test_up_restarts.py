"""Parts of `tallystick up` crash, are reloaded or killed, and it runs again on the same port.

Crashes are tested by default. What is restarted as a whole takes long and is tested under stress:
tests/embedded has the servers and the supervisor of a killed process, test_reloading.py what counts
as a change of code, and test_demo.py what the demo prints.
"""

import os
import re
import signal
from pathlib import Path

import psutil
import pytest
import requests

from service.operations.local.handle import ServersError
from service.operations.local.stack import listen
from tests.embedded.processes import is_gone, wait_until
from tests.running import ONE_OF_EACH, ROOT, Demo, Up, open_program, tallystick
from tests.worker.support.promises import sampled

PARTS = ("--config=python:service.web.server.gunicorn_config", "worker", "sweeper")


@pytest.mark.parametrize("part", sampled(PARTS, every=3))
def test_a_crashed_part_is_started_again_and_the_port_is_kept(up: Up, part: str) -> None:
    before = up.find(part)
    before[0].kill()
    with pytest.raises(ServersError):
        listen(up.port, up.port)
    assert wait_until(lambda: is_replaced(up, part, before))
    assert wait_until(lambda: is_ready(up))


def is_replaced(up: Up, part: str, before: list[psutil.Process]) -> bool:
    return any(process not in before and process.is_running() for process in up.find(part))


def is_ready(up: Up) -> bool:
    try:
        return requests.get(f"{up.base_url}/readyz", timeout=5).status_code == 200
    except requests.RequestException:  # The port listens while the web process starts again.
        return False


@pytest.mark.stress
def test_a_change_of_code_restarts_web_and_workers_on_the_same_port(second: Up) -> None:
    old = {part: second.find(part) for part in PARTS}
    database = second.find("postgres")[:1]
    os.utime(ROOT / "worker.py")
    lines = iter(second.read_line, "")
    assert next(line for line in lines if "changed" in line).startswith("worker.py changed.")
    assert next(lines) == f"Ready again at {second.base_url}\n"
    assert requests.get(f"{second.base_url}/readyz", timeout=60).status_code == 200
    assert all(is_replaced(second, part, before) for part, before in old.items())
    assert second.find("postgres")[:1] == database


@pytest.mark.stress
def test_a_killed_up_leaves_nothing_running_and_its_secret_stays(
    second: Up, open_python: dict[str, str]
) -> None:
    """A demo on its folder works, and Ctrl-C stops that within seconds, also as another user."""
    secret = kill_everything_of(second)
    demo = open_program(Demo, open_python)(second.folder, **open_python, **ONE_OF_EACH)
    assert (second.folder / "secret_key").read_text() == secret
    assert "8 more findings" in demo.printed, demo.printed
    [report] = re.findall(r"^Report: (.+)$", demo.printed, re.MULTILINE)
    demo.stop_in_order(signal.SIGINT)
    assert Path(report).read_text().startswith("<!doctype html>")


@pytest.mark.stress
def test_up_works_on_the_folder_of_a_killed_one(servers_folder: Path) -> None:
    killed = Up(servers_folder / "killed")
    secret = kill_everything_of(killed)
    again = Up(killed.folder)
    assert (killed.folder / "secret_key").read_text() == secret
    workers = again.find("worker")
    # The processes of their jobs have the same command line.
    parents = [each for each in workers if each.parent() not in workers]
    again.stop_in_order(signal.SIGINT)
    assert len(parents) == 4  # two for audits, one for mail and one for notices


def kill_everything_of(up: Up) -> str:
    """Kill the first process, wait for the end of the others, and return the folder's secret."""
    everyone = up.processes()
    up.stop(signal.SIGKILL)
    assert tallystick("migrate", folder=up.folder).returncode == 2
    assert wait_until(lambda: all(is_gone(process.pid) for process in everyone))
    return (up.folder / "secret_key").read_text()
