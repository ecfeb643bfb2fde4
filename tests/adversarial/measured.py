"""Read one attack, and print by how many megabytes this process grew: a program of the tests."""

import json
import re
import resource
import sys
from pathlib import Path

from tests.adversarial.bodies import BODIES
from tests.adversarial.files import FILES
from tests.adversarial.reading import read_body, read_file

_MOST_SECONDS = 60  # as a request; some attacks take longer only because they are so long


def _status(field: str) -> int:
    found = re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def main() -> None:
    name, size = json.loads(sys.argv[1])
    text = {**FILES, **BODIES}[name](size)
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS + 5))
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _status("VmRSS")
    (read_file if name in FILES else read_body)(text)
    sys.stdout.write(str((_status("VmHWM") - before) / 1000))


if __name__ == "__main__":
    main()
