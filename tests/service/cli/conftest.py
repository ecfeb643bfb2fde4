"""A second `tallystick up` on this machine, which restarts when the code changes."""

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running import ONE_OF_EACH, Up, open_program


@pytest.fixture
def second(servers_folder: Path, open_python: dict[str, str]) -> Iterator[Up]:
    """A service of a test's own, to restart and to kill."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder)) / "var"
    folder.parent.chmod(0o711)
    settings = {**open_python, **ONE_OF_EACH, "REFUSE_ROOT": "1"}
    second = open_program(Up, open_python)(folder, "--reload", **settings)
    yield second
    if second.process.poll() is None:
        second.stop(signal.SIGTERM)
