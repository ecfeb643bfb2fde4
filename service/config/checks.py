"""What is wrong with the values of settings, in words that name the setting and not its value."""

import re
from collections.abc import Iterator, Mapping
from email.utils import parseaddr
from typing import Any, Final
from urllib.parse import urlsplit

# The price of one audit in one currency, as `49.00 USD`; never zero.
CREDIT_AMOUNT: Final = re.compile(
    r"(?P<amount>(?=[\d.]*[1-9])\d{1,9}(?:\.\d{1,3})?) (?P<currency>[A-Z]{3})"
)
_MIN_SECRET_LENGTH: Final = 32
# Characters that a header carries unchanged.
_ADMIN_TOKEN: Final = re.compile(rf"[!-~]{{{_MIN_SECRET_LENGTH},}}")
_CONTACT: Final = re.compile(r"(mailto:[^@]+@.|tel:\+?[0-9]|https://.)[!-~]*")
_HEADERS: Final = re.compile(r"([A-Za-z0-9-]+=[ -+\--~]+(, *|$))*")
# The addresses that stand in for those of model providers.
_CONNECTION_URLS: Final = re.compile(r"(\s*[a-z-]+=https?://[!-+\--~]+\s*(,|$))*")
_LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_POSTGRES: Final = ("postgres", "postgresql", "postgresql+psycopg2")
_SCHEMES: Final[Mapping[str, tuple[str, ...]]] = {
    "database_url": _POSTGRES,
    "migration_database_url": _POSTGRES,
    "redis_url": ("redis", "rediss", "unix"),
    "storage_url": ("file", "s3"),
    "base_url": ("http", "https"),
    "smtp_url": ("smtp", "smtps", "smtp+starttls"),
    "prices_url": ("http", "https"),
    "sentry_dsn": ("http", "https"),
    "traces_url": ("http", "https"),
    "backup_url": ("file", "s3"),
}
_OPTIONAL_URLS: Final = {
    "smtp_url",
    "migration_database_url",
    "prices_url",
    "backup_url",
    "sentry_dsn",
    "traces_url",
}
_AT_LEAST_ZERO: Final = {
    "trusted_proxies",
    "drain_seconds",
    "rollup_retention_days",
    "log_requests_share",
    "traces_share",
}
_SHARES: Final = ("log_requests_share", "traces_share")
# Audits of an account look back 90 days, and files of calls have up to 31 days.
_MIN_CALL_DAYS: Final = 100
# The addresses that Spark starts a session at.
_SPARK_MASTER: Final = re.compile(r"local(\[(\*|[1-9]\d*)\])?|yarn|(spark|k8s)://\S+")
_PAYMENT_PROVIDERS: Final = ("stripe", "paddle")

Values = Mapping[str, Any]


def find_problems(values: Values) -> list[str]:
    """Return what is wrong with the values of all settings, by their names."""
    return [
        *_url_problems(values),
        *_number_problems(values),
        *(problem for name in _PAYMENT_PROVIDERS for problem in _payment_problems(values, name)),
        *_key_problems(values),
        *_text_problems(values),
    ]


def find_storage_problems(environment: Mapping[str, str]) -> Iterator[str]:
    """Find S3 endpoints that the storage's library would refuse, which reads the variables itself.

    Without this, every process would start and no blob could be stored.
    """
    allowed = environment.get("AWS_ALLOW_HTTP", "")
    for prefix, url in (("", "STORAGE_URL"), ("BACKUP_", "BACKUP_URL")):
        names = (f"{prefix}AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
        name = next((name for name in names if environment.get(name)), "")
        allows = environment.get(f"{prefix}AWS_ALLOW_HTTP") or allowed
        is_s3 = environment.get(url, "").strip().startswith("s3://")
        if is_s3 and environment.get(name, "").startswith("http://") and not is_on(allows):
            yield f"{name} starts with http://; set {prefix}AWS_ALLOW_HTTP=true or use https://"


def is_on(text: str) -> bool:
    """Check whether a variable of the S3 library is on, as it reads it."""
    return text.strip().lower() in ("true", "1", "yes", "on", "y", "t")


def split_addresses(text: str) -> frozenset[str]:
    """Return the email addresses in a list separated by commas or spaces, in lower case."""
    return frozenset(text.lower().replace(",", " ").split())


def _url_problems(values: Values) -> Iterator[str]:
    # The message names only the setting, because these URLs contain passwords.
    for name, schemes in _SCHEMES.items():
        is_needed = values[name] or name not in _OPTIONAL_URLS
        if is_needed and urlsplit(values[name]).scheme not in schemes:
            accepted = " or ".join(f"{scheme}://" for scheme in schemes)
            yield f"{name.upper()} must start with {accepted}"
    remote, master = values["spark_remote"], values["spark_master"]
    if remote and not (remote.startswith("sc://") and urlsplit(remote).hostname):
        yield "SPARK_REMOTE must start with sc:// and a host"
    if master and not _SPARK_MASTER.fullmatch(master):
        yield "SPARK_MASTER must be local[N], spark://, k8s:// or yarn"
    if remote and master:
        yield "SPARK_REMOTE and SPARK_MASTER must not both be set"


def _number_problems(values: Values) -> Iterator[str]:
    for name, value in values.items():
        if not isinstance(value, int | float):
            continue
        if name in _AT_LEAST_ZERO:
            if value < 0:
                yield f"{name.upper()} must not be negative"
        elif not value > 0:  # which NaN isn't either
            yield f"{name.upper()} must be greater than 0"
    for name in _SHARES:
        if not 0 <= values[name] <= 1:
            yield f"{name.upper()} must be from 0 to 1"
    if 0 < values["call_retention_days"] < _MIN_CALL_DAYS:
        yield f"CALL_RETENTION_DAYS must be at least {_MIN_CALL_DAYS}"
    if 0 < values["rollup_retention_days"] < values["call_retention_days"]:
        yield "ROLLUP_RETENTION_DAYS must be 0, which is forever, or at least CALL_RETENTION_DAYS"


def _payment_problems(values: Values, provider: str) -> Iterator[str]:
    """Check a payment provider's settings; without a secret, anyone could forge its events."""
    own = {name: value for name, value in values.items() if name.startswith(f"{provider}_")}
    for name, value in own.items():
        if name.endswith("_link") and value and urlsplit(value).scheme != "https":
            yield f"{name.upper()} must be an https:// URL"
    amounts = own[f"{provider}_credit_amount"]
    if amounts and not all(map(CREDIT_AMOUNT.fullmatch, map(str.strip, amounts.split(",")))):
        yield f"{provider.upper()}_CREDIT_AMOUNT must list amounts like 49.00 USD, 45 EUR"
    secret = f"{provider}_webhook_secret"
    if any(own.values()) and not own[secret].strip():
        yield f"{secret.upper()} is required if other {provider.upper()}_ settings are set"


def _key_problems(values: Values) -> Iterator[str]:
    for name in ("secret_key", "encryption_key"):
        key = values[name]
        if (key or name == "secret_key") and len(key) < _MIN_SECRET_LENGTH:
            yield f"{name.upper()} must have at least {_MIN_SECRET_LENGTH} characters"
    for name in ("secret_key_fallbacks", "encryption_key_fallbacks"):
        if any(len(key) < _MIN_SECRET_LENGTH for key in values[name].split()):
            yield f"every key in {name.upper()} must have at least {_MIN_SECRET_LENGTH} characters"
    if not all(map(_ADMIN_TOKEN.fullmatch, values["admin_token"].split())):
        yield f"ADMIN_TOKEN must be at least {_MIN_SECRET_LENGTH} printable ASCII characters"


def _text_problems(values: Values) -> Iterator[str]:
    if not _HEADERS.fullmatch(values["traces_headers"]):
        yield "TRACES_HEADERS must list headers like name=value, name=value"
    if "@" not in parseaddr(values["mail_from"])[1]:
        yield "MAIL_FROM must be an email address"
    if values["owner_email"] and "@" not in values["owner_email"]:
        yield "OWNER_EMAIL must be an email address"
    if any("@" not in address for address in split_addresses(values["admin_accounts"])):
        yield "ADMIN_ACCOUNTS must be email addresses, separated by commas"
    for name in ("prices_update", "notices_private_targets", "connections"):
        if values[name] not in ("on", "off"):
            yield f"{name.upper()} must be on or off"
    if not _CONNECTION_URLS.fullmatch(values["connection_urls"]):
        yield "CONNECTION_URLS must list addresses like openai=https://host/v1"
    if values["log_level"] not in _LOG_LEVELS:
        yield f"LOG_LEVEL must be one of {', '.join(_LOG_LEVELS)}"
    if not all(map(_CONTACT.fullmatch, values["security_contact"].split())):
        yield "SECURITY_CONTACT must be mailto:, tel: or https:// URIs"
