"""The blobs, and the folders and disks of this machine."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Final
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from service.config import Config
from service.core.blobs import BlobStore
from service.operations.local import run_state
from service.operations.maintenance.doctor.findings import Area, Finding

_STORAGE: Final = Area("storage")
_DISK: Final = Area("disk")
_PERMISSIONS: Final = Area("permissions")
_PROBE: Final = b"tallystick doctor"
_ADVICE: Final = "check STORAGE_URL, the folder's owner or the bucket's policy, and free space"
_GIB: Final = 1024**3
_LOW: Final = (0.10, 2 * _GIB)
_NEARLY_FULL: Final = (0.02, _GIB // 4)
_PRIVATE: Final = (
    run_state.SECRET_KEY_NAME,
    run_state.ENCRYPTION_KEY_NAME,
    f"{run_state.SECRET_KEY_NAME}{run_state.FALLBACKS_SUFFIX}",
    f"{run_state.ENCRYPTION_KEY_NAME}{run_state.FALLBACKS_SUFFIX}",
    run_state.STATE_NAME,
)


def check_storage(config: Config) -> Iterator[Finding]:
    """Write, read and delete a blob; if that stops halfway, it is removed as an orphan."""
    folder = _folder_of(config)
    if folder is not None and os.geteuid() == 0 != _owner(folder):
        # What root can write says nothing about the program's user, and would belong to root.
        yield _STORAGE.ok("the folder of the blobs belongs to an ordinary user; root wrote nothing")
        return
    store, key = BlobStore.from_url(config.storage_url), f"raw/doctor-{uuid4().hex}.jsonl"
    step = "write"
    try:
        store.put(key, _PROBE)
        step = "read"
        is_same = store.get(key) == _PROBE
        step = "delete"
        store.delete(key)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        yield _STORAGE.fail(f"can't {step} a blob ({reason})", _ADVICE)
        return
    if is_same:
        yield _STORAGE.ok("a blob can be written, read and deleted")
    else:
        yield _STORAGE.fail("a blob that was read differs from what was written", _ADVICE)


def _owner(folder: Path) -> int:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return existing.stat().st_uid


def _folder_of(config: Config) -> Path | None:
    parts = urlsplit(config.storage_url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def check_disks(config: Config, data_dir: Path | None) -> Iterator[Finding]:
    """Look at the free space and the free inodes of every disk that this machine writes to."""
    named = {
        "the temporary folder": Path(gettempdir()),
        "the blobs": _folder_of(config),
        "uploads": Path(config.upload_folder) if config.upload_folder else None,
        "the data folder": data_dir,
    }
    disks: dict[int, tuple[str, Path]] = {}
    for name, folder in named.items():
        if folder is not None and folder.exists():
            disks[folder.stat().st_dev] = (name, folder)  # the last name is the best known
    for name, folder in disks.values():
        yield _check_space(name, folder)
        yield from _check_inodes(name, folder)


def _check_space(name: str, folder: Path) -> Finding:
    usage = shutil.disk_usage(folder)
    free, share = usage.free, usage.free / usage.total
    words = f"the disk of {name} has {free / _GIB:,.1f} GiB free ({share:.0%})"
    if free < _NEARLY_FULL[1] or share < _NEARLY_FULL[0]:
        return _DISK.fail(words, "free up space now: writes fail with 503 when it is full")
    if free < _LOW[1] or share < _LOW[0]:
        return _DISK.warn(words, "free up space, or shorten the retention periods")
    return _DISK.ok(words)


def _check_inodes(name: str, folder: Path) -> Iterator[Finding]:
    counts = os.statvfs(folder)
    if counts.f_files and counts.f_favail / counts.f_files < _LOW[0]:
        yield _DISK.warn(
            f"the disk of {name} has {counts.f_favail / counts.f_files:.0%} of its inodes free",
            "blobs are files: use a file system with more inodes, or S3",
        )


def check_permissions(data_dir: Path | None) -> Iterator[Finding]:
    """Find keys in the data folder that others can read."""
    if data_dir is None:
        return
    files = [data_dir / name for name in _PRIVATE if (data_dir / name).exists()]
    others = stat.S_IRWXG | stat.S_IRWXO
    readable = [path.name for path in files if path.stat().st_mode & others]
    if readable:
        yield _PERMISSIONS.fail(
            f"other users can read {', '.join(readable)} in the data folder",
            "run chmod 600 on them, and rotate the keys; see Rotating secrets",
        )
    else:
        yield _PERMISSIONS.ok("only their owner can read the keys in the data folder")
