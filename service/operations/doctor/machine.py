"""This machine: settings, libraries, blobs, folders and disks."""

import errno
import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from importlib.metadata import distributions
from pathlib import Path
from tempfile import gettempdir
from typing import Final
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from packaging.requirements import Requirement

from service.config import Config
from service.config.secret_files import SUFFIX
from service.config.settings import SECRETS
from service.core.blobs import BlobStore, local_folder
from service.operations.doctor.findings import Diagnosis, fail, judge, ok, warn
from service.operations.key_files import KEYS, KeyFiles
from service.operations.local.run_state import STATE_NAME

_KNOWN: Final = tuple(setting.name.upper() for setting in fields(Config))
# As alike as `REDIS_URI` and `REDIS_URL`; fewer letters in common have other meanings.
_ALIKE: Final = 0.87
# Read by programs beside the service, under names that are close to ours.
_OTHERS: Final = frozenset({"PORT", "LOGLEVEL", "REDIS_HOST", "DATABASE_HOST", "MAIL"})
# Earlier settings, which are fixed now or follow from others.
_RETIRED: Final = frozenset(
    """
    ADMIN_REFUSALS_PER_MINUTE BODY_MEMORY_BYTES DATABASE_CONNECT_TIMEOUT_SECONDS
    DATABASE_POOL_TIMEOUT_SECONDS DATABASE_STATEMENT_TIMEOUT_SECONDS
    EARLY_ACCESS_LIMIT_PER_MINUTE FAILED_WORK_SECONDS_PER_DAY HOUSEKEEPING_SECONDS
    INGEST_IP_LIMIT_PER_MINUTE INSTANCE_ID JOB_PROCESS_BYTES JOB_PROCESS_JOBS
    LOG_REPEATS_PER_MINUTE MAGIC_LINK_LIMIT_PER_RECIPIENT MAGIC_LINK_MINUTES MAIL_RETENTION_DAYS
    MAX_BODY_BYTES NOTICE_LIMIT_PER_MINUTE OAUTH_LIMIT_PER_MINUTE OTLP_IP_LIMIT_PER_MINUTE
    OTLP_KEY_LIMIT_PER_MINUTE PAGE_LIMIT_PER_MINUTE QUEUED_AUDITS_PRO QUEUED_AUDITS_TEAM
    REDIS_TIMEOUT_SECONDS REFUSED_UPLOAD_SECONDS_PER_DAY STORED_BYTES_PRO STORED_BYTES_TEAM
    SWEEP_SECONDS UPLOAD_CPU_SECONDS
    """.split()  # noqa: SIM905 - a line for each name says no more
)
_LOCK: Final = Path(__file__).parents[3] / "requirements" / "service.lock"
_SHOWN: Final = 5
_PROBE: Final = b"tallystick doctor"
_GIB: Final = 1024**3
_LOW: Final = (0.10, 2 * _GIB)
_NEARLY_FULL: Final = (0.02, _GIB // 4)


def check_names(environment: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Find variables that look like settings and aren't."""
    has_found = False
    for name in sorted(environment.keys() - set(_KNOWN) - _OTHERS):
        setting = name.removesuffix(SUFFIX)
        alike = get_close_matches(setting, _KNOWN, n=1, cutoff=_ALIKE)
        if setting in SECRETS or not (name in _RETIRED or alike):
            continue
        has_found = True
        if name in _RETIRED:
            yield warn(f"{name} is no longer a setting", "remove it; see docs/operations.md")
        elif setting in _KNOWN:
            yield warn(f"{name} has no effect: only secrets come from files", f"set {setting}")
        else:
            yield warn(f"{name} isn't a setting", f"if you mean {alike[0]}, rename it")
    if not has_found:
        yield ok("no variable looks like a misspelled setting")


def _is_remote(host: str | None) -> bool:
    return (host or "") not in ("localhost", "127.0.0.1", "::1", "")


def check_values(config: Config) -> Iterator[Diagnosis]:
    """Find settings that contradict one another or make the service insecure."""
    found = [*_check_keys_and_logs(config), *_check_addresses(config)]
    yield from found or [ok("the settings are consistent")]


def _check_keys_and_logs(config: Config) -> Iterator[Diagnosis]:
    if config.session_idle_days > config.session_days:
        yield warn("SESSION_IDLE_DAYS is longer than SESSION_DAYS and has no effect", "shorten it")
    if config.secret_key_fallbacks or config.encryption_key_fallbacks:
        advice = "run `tallystick keys status`, then `tallystick keys drop`; see Rotating secrets"
        yield warn("a key has fallbacks: its rotation isn't finished", advice)
    if len(config.admin_tokens) > 1:
        yield warn("ADMIN_TOKEN has two tokens", "remove the old one and restart")
    if config.log_level == "DEBUG":
        yield warn("LOG_LEVEL is DEBUG: logs grow fast", "set it to INFO")
    if config.allows_private_targets:
        everyone = "everyone with an account can send requests into your network"
        advice = "turn it off unless your receivers are there"
        yield warn(f"NOTICES_PRIVATE_TARGETS is on: {everyone}", advice)


def _check_addresses(config: Config) -> Iterator[Diagnosis]:
    database, redis, smtp = map(urlsplit, (config.database_url, config.redis_url, config.smtp_url))
    mode = parse_qs(database.query).get("sslmode", [""])[-1]
    if _is_remote(urlsplit(config.base_url).hostname):  # it is for more than this machine
        if not config.base_url.startswith("https://"):
            message = "BASE_URL starts with http://, so browsers don't stay signed in"
            advice = "put a proxy with TLS in front, and set BASE_URL to its https:// URL"
            yield fail(message, advice)
        if not config.trusted_proxies:
            message = "TRUSTED_PROXIES is 0: behind a proxy, all clients share its address and its"
            message += " limits; without one, nothing keeps a client from opening every connection"
            yield warn(message, "put a proxy in front, and set it to the number of proxies")
        if not config.smtp_url:
            yield fail("SMTP_URL is not set: nobody gets a sign-in mail", "set a mail server")
        if not config.encryption_key:
            message = "ENCRYPTION_KEY is not set, so SECRET_KEY can't be replaced alone"
            yield warn(message, "set it; values that are sealed already stay readable")
    if _is_remote(database.hostname) and mode not in ("require", "verify-ca", "verify-full"):
        advice = "add ?sslmode=verify-full"
        yield warn("DATABASE_URL doesn't require TLS to another machine", advice)
    if redis.scheme == "redis" and _is_remote(redis.hostname):
        yield warn("REDIS_URL doesn't use TLS to another machine", "use rediss://")
    if smtp.scheme == "smtp" and smtp.password and _is_remote(smtp.hostname):
        advice = "use smtps:// or smtp+starttls://"
        yield fail("SMTP_URL sends its password without TLS", advice)
    if _is_remote(config.metrics_host):
        what = "METRICS_HOST is reachable from other machines, and metrics have no authentication"
        yield warn(what, "let only Prometheus reach it")


def check_versions(lock: Path = _LOCK) -> Iterator[Diagnosis]:
    """Compare what is installed with what this release was tested with."""
    yield ok(f"Python {platform.python_version()}")
    if not lock.exists():
        yield ok("there is no lock file beside the program to compare libraries with")
        return
    lines = [line for line in lock.read_text().splitlines() if line[:1] not in ("", " ", "#", "-")]
    locked = [Requirement(line.removesuffix("\\")) for line in lines]
    needed = [each for each in locked if each.marker is None or each.marker.evaluate()]
    # Of several installed ones, Python imports the first.
    found = [(each, next(iter(distributions(name=each.name)), None)) for each in needed]
    different = [
        f"{each.name} is {used.version if used else 'missing'}"
        for each, used in found
        if used is None or used.version not in each.specifier
    ]
    message = f"{len(needed)} libraries match the lock file"
    if different:
        shown = ", ".join(different[:_SHOWN])
        more = f" and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
        message = f"installed libraries differ from the lock file: {shown}{more}"
    advice = f"install those this release was tested with: pip install -r {lock.name}"
    yield judge(message, advice, warns=bool(different))


def check_storage(config: Config) -> Iterator[Diagnosis]:
    """Write, read and delete a blob; if that stops halfway, it is removed as an orphan."""
    folder = local_folder(config.storage_url)
    if folder is not None and os.geteuid() == 0 != _owner(folder):
        # What root can write says nothing about the program's user, and would belong to root.
        yield ok("the folder of the blobs belongs to an ordinary user; root wrote nothing")
        return
    store, key = BlobStore.from_url(config.storage_url), f"raw/doctor-{uuid4().hex}.jsonl"
    step = "write"
    try:
        store.put(key, _PROBE)
        step = "read"
        if store.get(key) != _PROBE:
            raise OSError(errno.EIO, "its content differs")
        step = "delete"
        store.delete(key)
        yield ok("a blob can be written, read and deleted")
    except OSError as error:
        advice = "check STORAGE_URL, the folder's owner or the bucket's policy, and free space"
        yield fail(f"can't {step} a blob ({error.strerror or type(error).__name__})", advice)


def _owner(folder: Path) -> int:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return existing.stat().st_uid


def check_disks(config: Config, data_dir: Path | None) -> Iterator[Diagnosis]:
    """Look at the free space and the free inodes of every disk that this machine writes to."""
    named = {
        "the temporary folder": Path(gettempdir()),
        "the blobs": local_folder(config.storage_url),
        "uploads": Path(config.upload_folder) if config.upload_folder else None,
        "the data folder": data_dir,
    }
    disks: dict[int, tuple[str, Path]] = {}
    for name, folder in named.items():
        if folder is not None and folder.exists():
            disks[folder.stat().st_dev] = (name, folder)  # the last name is the best known
    for name, folder in disks.values():
        usage, inodes = shutil.disk_usage(folder), os.statvfs(folder)
        share = usage.free / usage.total
        is_full = share < _NEARLY_FULL[0] or usage.free < _NEARLY_FULL[1]
        message = f"the disk of {name} has {usage.free / _GIB:,.1f} GiB free ({share:.0%})"
        advice = "free up space, or shorten the retention periods"
        advice = "free up space now: writes fail with 503 when it is full" if is_full else advice
        is_low = share < _LOW[0] or usage.free < _LOW[1]
        yield judge(message, advice, warns=is_low, fails=is_full)
        if inodes.f_files and (free := inodes.f_favail / inodes.f_files) < _LOW[0]:
            advice = "blobs are files: use a file system with more inodes, or S3"
            yield warn(f"the disk of {name} has {free:.0%} of its inodes free", advice)


def check_permissions(data_dir: Path | None) -> Iterator[Diagnosis]:
    """Find keys in the data folder that others can read."""
    if data_dir is None:
        return
    files = [KeyFiles.of(data_dir, name) for name in KEYS]
    paths = [path for each in files for path in (each.current, each.fallbacks)]
    private = [path for path in (*paths, data_dir / STATE_NAME) if path.exists()]
    message = "only their owner can read the keys in the data folder"
    if readable := [path.name for path in private if path.stat().st_mode & 0o077]:
        message = f"other users can read {', '.join(readable)} in the data folder"
    advice = "run chmod 600 on them, and rotate the keys; see Rotating secrets"
    yield judge(message, advice, fails=bool(readable))
