"""A folder that all processes of a test run share: templates of data folders, and sockets."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

_VARIABLE: Final = "TALLYSTICK_RUN_FOLDER"


def keep_run_folder(config: "pytest.Config") -> None:
    """Create the folder, which the processes of xdist inherit by its name, and remove it."""
    if _VARIABLE not in os.environ:
        folder = tempfile.mkdtemp(prefix="tallystick-run-")
        Path(folder).chmod(0o711)
        os.environ[_VARIABLE] = folder
        config.add_cleanup(lambda: _remove(folder))


def run_folder() -> Path:
    return Path(os.environ[_VARIABLE])


def _remove(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    del os.environ[_VARIABLE]
