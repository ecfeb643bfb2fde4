"""Settings that are misspelled, contradict one another, or are insecure."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Final
from urllib.parse import parse_qs, urlsplit

from service.config import Config
from service.config.secret_files import SUFFIX
from service.config.settings import SECRETS
from service.operations.maintenance.doctor.findings import Area, Finding

_AREA: Final = Area("settings")
_KNOWN: Final = tuple(setting.name.upper() for setting in fields(Config))
# As alike as `REDIS_URI` and `REDIS_URL`; fewer letters in common have other meanings.
_ALIKE: Final = 0.87
# Read by programs beside the service, under names that are close to ours.
_OTHERS: Final = frozenset({"PORT", "LOGLEVEL", "REDIS_HOST", "DATABASE_HOST", "MAIL"})
# Settings of 0.1, which are fixed now or follow from others.
_RETIRED: Final = frozenset(
    """
    ADMIN_REFUSALS_PER_MINUTE BODY_MEMORY_BYTES DATABASE_CONNECT_TIMEOUT_SECONDS
    DATABASE_POOL_TIMEOUT_SECONDS DATABASE_STATEMENT_TIMEOUT_SECONDS EARLY_ACCESS_LIMIT_PER_MINUTE
    FAILED_WORK_SECONDS_PER_DAY INGEST_IP_LIMIT_PER_MINUTE JOB_PROCESS_BYTES JOB_PROCESS_JOBS
    LOG_REPEATS_PER_MINUTE MAGIC_LINK_LIMIT_PER_RECIPIENT MAGIC_LINK_MINUTES MAIL_RETENTION_DAYS
    MAX_BODY_BYTES NOTICE_LIMIT_PER_MINUTE OAUTH_LIMIT_PER_MINUTE OTLP_IP_LIMIT_PER_MINUTE
    OTLP_KEY_LIMIT_PER_MINUTE PAGE_LIMIT_PER_MINUTE QUEUED_AUDITS_PRO QUEUED_AUDITS_TEAM
    REDIS_TIMEOUT_SECONDS REFUSED_UPLOAD_SECONDS_PER_DAY STORED_BYTES_PRO STORED_BYTES_TEAM
    SWEEP_SECONDS UPLOAD_CPU_SECONDS
    """.split()  # noqa: SIM905 - 28 lines with one name each say no more
)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1", "")
_ENCRYPTED: Final = ("require", "verify-ca", "verify-full")


def check_names(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Find variables that look like settings and aren't."""
    found = 0
    for name in sorted(environment.keys() - set(_KNOWN) - _OTHERS):
        setting = name.removesuffix(SUFFIX)
        if name in _RETIRED:
            found += 1
            yield _AREA.warn(f"{name} is no longer a setting", "remove it; see docs/operations.md")
        elif name != setting and setting in _KNOWN:
            if setting not in SECRETS:
                found += 1
                yield _AREA.warn(
                    f"{name} has no effect: only secrets come from files", f"set {setting}"
                )
        elif alike := get_close_matches(setting, _KNOWN, n=1, cutoff=_ALIKE):
            found += 1
            yield _AREA.warn(f"{name} isn't a setting", f"if you mean {alike[0]}, rename it")
    if not found:
        yield _AREA.ok("no variable looks like a misspelled setting")


def check_values(config: Config) -> Iterator[Finding]:
    """Find settings that contradict one another or make the service insecure."""
    problems = [*_contradictions(config), *_public(config), *_unencrypted(config), *_open(config)]
    yield from problems or [_AREA.ok("the settings are consistent")]


def _contradictions(config: Config) -> Iterator[Finding]:
    if config.session_idle_days > config.session_days:
        yield _AREA.warn(
            "SESSION_IDLE_DAYS is longer than SESSION_DAYS and has no effect", "shorten it"
        )
    if config.secret_key_fallbacks or config.encryption_key_fallbacks:
        yield _AREA.warn(
            "a key has fallbacks: its rotation isn't finished",
            "run `tallystick keys status`, then `tallystick keys drop`; see Rotating secrets",
        )
    if len(config.admin_tokens) > 1:
        yield _AREA.warn("ADMIN_TOKEN has two tokens", "remove the old one and restart")


def is_local(config: Config) -> bool:
    """Check whether the service is for this machine only."""
    return (urlsplit(config.base_url).hostname or "") in _LOOPBACK


def _public(config: Config) -> Iterator[Finding]:
    """Find what only a service for this machine may have."""
    if is_local(config):
        return
    if not config.base_url.startswith("https://"):
        yield _AREA.fail(
            "BASE_URL starts with http://, so browsers don't stay signed in",
            "put a proxy with TLS in front, and set BASE_URL to its https:// URL",
        )
    if not config.trusted_proxies:
        yield _AREA.warn(
            "TRUSTED_PROXIES is 0: behind a proxy, all clients share its address and its limits;"
            " without one, nothing keeps a client from opening every connection",
            "put a proxy in front, and set it to the number of proxies",
        )
    if not config.smtp_url:
        yield _AREA.fail("SMTP_URL is not set: nobody gets a sign-in mail", "set a mail server")
    if not config.encryption_key:
        yield _AREA.warn(
            "ENCRYPTION_KEY is not set, so SECRET_KEY can't be replaced alone",
            "set it; values that are sealed already stay readable",
        )


def _unencrypted(config: Config) -> Iterator[Finding]:
    """Find passwords and data that cross a network in the clear."""
    database, redis, smtp = map(urlsplit, (config.database_url, config.redis_url, config.smtp_url))
    modes = parse_qs(database.query).get("sslmode", [""])
    if _is_remote(database.hostname) and modes[-1] not in _ENCRYPTED:
        yield _AREA.warn(
            "DATABASE_URL doesn't require TLS to another machine", "add ?sslmode=verify-full"
        )
    if redis.scheme == "redis" and _is_remote(redis.hostname):
        yield _AREA.warn("REDIS_URL doesn't use TLS to another machine", "use rediss://")
    if smtp.scheme == "smtp" and smtp.password and _is_remote(smtp.hostname):
        yield _AREA.fail(
            "SMTP_URL sends its password without TLS", "use smtps:// or smtp+starttls://"
        )


def _is_remote(host: str | None) -> bool:
    return (host or "") not in _LOOPBACK


def _open(config: Config) -> Iterator[Finding]:
    if config.metrics_host not in _LOOPBACK:
        yield _AREA.warn(
            "METRICS_HOST is reachable from other machines, and metrics have no authentication",
            "let only Prometheus reach it",
        )
    if config.allows_private_targets:
        yield _AREA.warn(
            "NOTICES_PRIVATE_TARGETS is on: everyone with an account can send requests into your"
            " network",
            "turn it off unless your receivers are there",
        )
    if config.log_level == "DEBUG":
        yield _AREA.warn("LOG_LEVEL is DEBUG: logs grow fast", "set it to INFO")
