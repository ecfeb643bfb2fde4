"""A small disk that tests fill and protect from writing, by root; others lose the right to it."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

IS_MOUNTED: Final = os.geteuid() == 0
_BLOCK: Final = bytes(1 << 16)


@contextmanager
def limited_disk(folder: Path, size: int) -> Iterator[Path]:
    """Make the folder a disk of its own, as long as the block runs."""
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    if not IS_MOUNTED:
        yield folder
        return
    _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=0711", "tmpfs", str(folder))
    try:
        yield folder
    finally:
        _run("umount", "--lazy", str(folder))


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """Take what is free on the disk, again and again, until the block ends."""
    if not IS_MOUNTED:
        with read_only(folder):
            yield
        return
    filler, ended = folder / "filler", threading.Event()

    def fill() -> None:
        with filler.open("ab", buffering=0) as file:
            while not ended.wait(0.05):
                with suppress(OSError):
                    while file.write(_BLOCK) and not ended.is_set():
                        pass

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        filler.unlink()


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write to the disk until the block ends."""
    if IS_MOUNTED:
        _remount(folder, "ro")
        try:
            yield
        finally:
            _remount(folder, "rw")
        return
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o500)
    try:
        yield
    finally:
        for path in folders:
            path.chmod(0o700)


def _remount(folder: Path, mode: str) -> None:
    """Change the disk; while a file is open for writing, the system refuses to."""
    for _ in range(500):
        command = ("mount", "-o", f"remount,{mode}", str(folder))
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
    raise AssertionError(f"{folder} can't be remounted")


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
