"""The settings: one frozen value, read from the environment once. No other module reads it.

Every field is a setting; its environment variable is the name in upper case. Fields that `repr`
leaves out are secrets, which may also come from a file: the variable's name with `_FILE`.
"""

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import ClassVar, Final, Self
from urllib.parse import urlsplit

from service.config.checks import find_problems, find_storage_problems, split_addresses
from service.config.secret_files import read_secret_files
from service.errors import ConfigError

# What the plans allow, in multiples of the Free plan.
_TIMES_QUEUED: Final = {"free": 1, "pro": 100, "team": 500}
_TIMES_STORED: Final = {"free": 1, "pro": 20, "team": 200}
_LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of every process of the service; `docs/settings.md` describes each.

    `_seconds`, `_bytes` and `_days` are units; requests above a `_per_minute` limit get a 429.
    """

    secret_key: str = field(repr=False)
    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    storage_url: str
    migration_database_url: str = field(default="", repr=False)
    secret_key_fallbacks: str = field(default="", repr=False)
    encryption_key: str = field(default="", repr=False)
    encryption_key_fallbacks: str = field(default="", repr=False)
    admin_token: str = field(default="", repr=False)
    admin_accounts: str = ""
    base_url: str = "http://localhost:8000"
    trusted_proxies: int = 0
    database_pool_size: int = 10
    ingest_key_limit_per_minute: int = 120
    read_limit_per_minute: int = 600
    upload_limit_per_minute: int = 10
    max_upload_bytes: int = 200 * 1024 * 1024
    upload_folder: str = ""
    queued_audits_free: int = 100
    stored_bytes_free: int = 5 * 1024**3
    worker_processes: int = 2
    account_polars_calls: int = 10_000_000
    # A token of the server may be part of the address.
    spark_remote: str = field(default="", repr=False)
    spark_master: str = ""
    lease_seconds: float = 30.0
    max_starts: int = 3
    stop_seconds: int = 20
    drain_seconds: int = 0
    raw_retention_days: int = 7
    failed_raw_retention_days: int = 30
    report_retention_days: int = 30
    call_retention_days: int = 400
    rollup_retention_days: int = 0
    activity_retention_days: int = 365
    backup_url: str = ""
    backup_key: str = field(default="", repr=False)
    backup_keep_days: int = 7
    backup_keep_weeks: int = 5
    backup_keep_months: int = 12
    prices_update: str = "on"
    prices_url: str = ""
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 9464
    metrics_folder: str = ""
    report_link_days: int = 30
    session_days: int = 30
    session_idle_days: int = 14
    magic_link_limit_per_minute: int = 5
    smtp_url: str = field(default="", repr=False)
    mail_from: str = "Tallystick <no-reply@localhost>"
    outbox_folder: str = "var/outbox"
    notices_private_targets: str = "off"
    connections: str = "on"
    connection_urls: str = ""
    stripe_webhook_secret: str = field(default="", repr=False)
    stripe_credit_price: str = ""
    stripe_credit_link: str = ""
    stripe_credit_link_id: str = ""
    stripe_credit_amount: str = ""
    stripe_pro_price: str = ""
    stripe_pro_link: str = ""
    stripe_team_price: str = ""
    stripe_team_link: str = ""
    paddle_webhook_secret: str = field(default="", repr=False)
    paddle_credit_price: str = ""
    paddle_credit_link: str = ""
    paddle_credit_amount: str = ""
    paddle_pro_price: str = ""
    paddle_pro_link: str = ""
    paddle_team_price: str = ""
    paddle_team_link: str = ""
    credit_price_shown: str = ""
    pro_price_shown: str = ""
    team_price_shown: str = ""
    operator_name: str = ""
    operator_contact: str = ""
    sub_processors: str = ""
    security_contact: str = ""
    log_level: str = "INFO"
    sentry_dsn: str = field(default="", repr=False)
    traces_url: str = ""
    traces_headers: str = field(default="", repr=False)
    traces_share: float = 0.01
    log_requests_share: float = 1.0
    owner_email: str = ""

    # What no installation has to change. Tests do.
    database_pool_timeout_seconds: ClassVar[float] = 5.0
    database_connect_timeout_seconds: ClassVar[int] = 3
    database_statement_timeout_seconds: ClassVar[float] = 8.0
    redis_timeout_seconds: ClassVar[float] = 0.25
    failed_work_seconds_per_day: ClassVar[int] = 600
    upload_cpu_seconds: ClassVar[float] = 60.0
    refused_upload_seconds_per_day: ClassVar[int] = 600
    magic_link_minutes: ClassVar[int] = 15
    mail_retention_days: ClassVar[int] = 30
    notice_limit_per_minute: ClassVar[int] = 30

    @classmethod
    def load(cls) -> Self:
        """Load the settings from this process's environment."""
        return cls.from_environment(os.environ)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings; raise `ConfigError` naming every missing or malformed setting."""
        environment = read_secrets(environment)
        values: dict[str, object] = {}
        problems: list[str] = []
        for setting in fields(cls):
            name = setting.name.upper()
            text = environment.get(name, "").strip()
            if text:
                try:
                    values[setting.name] = _KINDS[setting.type](text)
                except ValueError:
                    problems.append(f"{name} must be a number")
            elif setting.default is MISSING:
                problems.append(f"{name} is not set")
            elif name in environment and name.endswith("_WEBHOOK_SECRET"):
                # Anyone can sign with an empty secret.
                problems.append(f"{name} is empty; set it or remove it")
        problems += find_storage_problems(environment)
        if problems:
            raise ConfigError("; ".join(problems))
        return cls(**values)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_url", self.base_url.rstrip("/"))
        object.__setattr__(self, "owner_email", self.owner_email.lower())
        problems = find_problems(vars(self))
        if problems:
            raise ConfigError("; ".join(problems))

    @property
    def secret_keys(self) -> tuple[str, ...]:
        """Return the keys that signatures are verified with; the last one also signs."""
        return (*self.secret_key_fallbacks.split(), self.secret_key)

    @property
    def rules_url(self) -> str:
        """Return the page that explains the detectors to everybody."""
        return f"{self.base_url}/sample#methods"

    @property
    def sweep_seconds(self) -> float:
        """Return how often the sweeper looks for leases that ran out."""
        return self.lease_seconds / 6

    @property
    def ingest_ip_limit_per_minute(self) -> int:
        """Return the limit of one address, which several keys share."""
        return self.ingest_key_limit_per_minute * 5

    @property
    def otlp_key_limit_per_minute(self) -> int:
        """Return the limit of a key's exporters, which send every few seconds from each program."""
        return self.ingest_key_limit_per_minute * 50

    @property
    def otlp_ip_limit_per_minute(self) -> int:
        return self.otlp_key_limit_per_minute * 2

    @property
    def page_limit_per_minute(self) -> int:
        return self.read_limit_per_minute * 2

    @property
    def oauth_limit_per_minute(self) -> int:
        return self.read_limit_per_minute // 5

    @property
    def admin_refusals_per_minute(self) -> int:
        return self.read_limit_per_minute // 10

    @property
    def magic_link_limit_per_recipient(self) -> int:
        """Return how many unused links one address may have."""
        return self.magic_link_limit_per_minute

    def queued_audits(self, plan: str) -> int:
        """Return how many audits an account of this plan may have queued."""
        return self.queued_audits_free * _TIMES_QUEUED[plan]

    def stored_bytes(self, plan: str) -> int:
        """Return how many bytes an account of this plan may store."""
        return self.stored_bytes_free * _TIMES_STORED[plan]

    @property
    def encryption_keys(self) -> tuple[str, ...]:
        """Return the keys that sealed columns are read with; the first one also seals.

        Without `ENCRYPTION_KEY`, that is the secret key, which stays readable if one is set later.
        """
        own = (self.encryption_key, *self.encryption_key_fallbacks.split())
        return (*filter(None, own), *reversed(self.secret_keys))

    @property
    def admin_tokens(self) -> tuple[str, ...]:
        """Return the tokens that open the administration: several while one replaces another."""
        return tuple(self.admin_token.split())

    @property
    def local_outbox(self) -> Path | None:
        """Return the folder of mail files if this machine's pages may name it, else None."""
        is_local = urlsplit(self.base_url).hostname in _LOOPBACK_HOSTS
        return None if self.smtp_url or not is_local else Path(self.outbox_folder).absolute()

    @property
    def mail_folder(self) -> Path | None:
        """Return the folder that mails are written to, or None if a mail server gets them."""
        return None if self.smtp_url else Path(self.outbox_folder)

    @property
    def allows_private_targets(self) -> bool:
        """Check whether notices may go to this network, and over HTTP."""
        return self.notices_private_targets == "on"

    @property
    def admin_emails(self) -> frozenset[str]:
        """Return the addresses of accounts whose passkeys open /admin in a browser."""
        return split_addresses(self.admin_accounts)

    def is_owner(self, email: str) -> bool:
        """Check whether this is the address of a self-hosted installation's owner."""
        return bool(self.owner_email) and email == self.owner_email


SECRETS: Final = tuple(setting.name.upper() for setting in fields(Config) if not setting.repr)


def read_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with every secret that is in a file."""
    return read_secret_files(environment, SECRETS)


_KINDS: Final[Mapping[object, type[str] | type[int] | type[float]]] = {
    str: str,
    int: int,
    float: float,
}
