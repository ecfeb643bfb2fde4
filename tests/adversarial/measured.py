"""Read attacks, each in a process of its own, and print by how many megabytes it grew."""

import json
import os
import re
import resource
import sys
from pathlib import Path

from tests.adversarial.files import FILES
from tests.adversarial.reading import ATTACKS

_MOST_SECONDS = 60  # as a request; some attacks take longer only because they are so long


def _status(field: str) -> int:
    found = re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def main() -> None:
    """Fork for each, because importing takes longer than most of them."""
    for name, size in json.loads(sys.argv[1]):
        pid = os.fork()
        if pid == 0:
            _measure(name, size)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status:
            sys.exit(f"{name} ended with {os.waitstatus_to_exitcode(status)}")


def _measure(name: str, size: int) -> None:
    read, attack = ATTACKS[name]
    text = attack(size)
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS + 5))
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _status("VmRSS")
    read(text)
    body = 0 if name in FILES else len(text) / 1_000_000
    sys.stdout.write(f"{(_status('VmHWM') - before) / 1000 + body}\n")


if __name__ == "__main__":
    main()
