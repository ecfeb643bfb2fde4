"""A second `tallystick up` on this machine: as root, with programs of an ordinary user."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running import ONE_OF_EACH, ROOT, Up, open_program


@pytest.fixture(scope="session")
def open_python(servers_folder: Path) -> dict[str, str]:
    """An interpreter and its settings that every user can run, even if root's own is private.

    For others than root, it is empty: they run their own.
    """
    if os.geteuid() != 0:
        return {}
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base, copy = Path(sys.base_prefix), servers_folder / "python"
    ignored = shutil.ignore_patterns("site-packages", "test", "tests", "config-*")
    shutil.copytree(base / "lib" / version, copy / "lib" / version, symlinks=True, ignore=ignored)
    for library in (base / "lib").glob("libpython3*"):
        shutil.copy(library, copy / "lib")
    (copy / "bin").mkdir()
    shutil.copy((base / "bin" / version).resolve(), copy / "bin" / version)
    for folder in (copy, copy / "lib", copy / "bin"):
        folder.chmod(0o755)
    installed = Path(pytest.__file__).parents[1]
    return {
        "PYTHON": str(copy / "bin" / version),
        "LD_LIBRARY_PATH": str(copy / "lib"),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "client", installed))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


@pytest.fixture(scope="session")
def second(servers_folder: Path, open_python: dict[str, str]) -> Iterator[Up]:
    """A service to restart and to kill, on a folder in which an earlier release left a blob."""
    folder = Path(tempfile.mkdtemp(dir=servers_folder)) / "var"
    folder.parent.chmod(0o711)
    (folder / "blobs" / "raw").mkdir(parents=True)
    (folder / "blobs").chmod(0o700)
    folder.chmod(0o711)
    (folder / "blobs" / "raw" / "old.jsonl").write_text("{}\n")
    settings = {**open_python, **ONE_OF_EACH, "REFUSE_ROOT": "1"}
    second = open_program(Up, open_python)(folder, "--reload", **settings)
    yield second
    if second.process.poll() is None:
        second.stop(signal.SIGTERM)
