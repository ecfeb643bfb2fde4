"""The file that is written: it appears whole, or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file beside `path` that takes its place once all is written, and goes if anything fails."""
    if path.is_dir() or (path.exists() and not path.is_file()):
        with path.open("wb") as file:  # a pipe or a device takes what comes; a folder nothing
            yield file
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
