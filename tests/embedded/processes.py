"""Wait for processes, and run a process that owns embedded servers."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

_OWNER = """
import json, sys, time
from pathlib import Path
from service.operations.local.servers import EmbeddedServers
from service.operations.local.handle import ServersError
servers = EmbeddedServers(Path(sys.argv[1]))
try:
    servers.start()
except ServersError as error:
    print(json.dumps({"error": str(error)}), flush=True)
    sys.exit(2)
print(json.dumps({
    "database_url": servers.database_url,
    "redis_url": servers.redis_url,
    "notices": servers.notices,
    "supervisor": servers.supervisor.pid,
    "pids": {name: status.pid for name, status in servers.supervisor.programs().items()},
}), flush=True)
time.sleep(600)
"""


@dataclass
class Owner:
    """A Python process that started servers on a folder and now sleeps."""

    process: "subprocess.Popen[str]"
    database_url: str
    redis_url: str
    notices: list[str]
    supervisor: int
    pids: dict[str, int]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_owner(folder: Path) -> Owner:
    process = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    answer = json.loads(process.stdout.readline())
    assert "error" not in answer, answer
    return Owner(process=process, **answer)


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
