"""The settings: one frozen value read from the environment once. No module reads `os.environ` else.

Every field is a setting; its name in upper case is its environment variable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from service.errors import ConfigError

_REQUIRED = ("secret_key", "database_url", "redis_url", "storage_url")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of every process of the service; see `docs/operations.md` for each.

    `_seconds`, `_bytes`, `_days` are units; `_per_minute` is a limit that answers 429 beyond it.
    """

    secret_key: str
    database_url: str
    redis_url: str
    storage_url: str
    base_url: str = "http://localhost:8000"
    trusted_proxies: int = 0
    database_pool_size: int = 10
    database_pool_timeout_seconds: float = 5.0
    ingest_key_limit_per_minute: int = 120
    ingest_ip_limit_per_minute: int = 600
    read_limit_per_minute: int = 600
    max_body_bytes: int = 16 * 1024 * 1024
    worker_processes: int = 2
    lease_seconds: float = 30.0
    sweep_seconds: float = 5.0
    max_starts: int = 3
    report_link_days: int = 30
    log_level: str = "INFO"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings; raises `ConfigError` naming every missing or malformed one."""
        values: dict[str, str | int | float] = {}
        problems = [f"{name.upper()} is not set" for name in _REQUIRED if not environment.get(name.upper())]
        for field in fields(cls):
            text = environment.get(field.name.upper())
            if text is None or text == "":
                continue
            try:
                values[field.name] = {"int": int, "float": float, "str": str}[str(field.type)](text)
            except ValueError:
                problems.append(f"{field.name.upper()} is not a number")
        if problems:
            raise ConfigError("; ".join(problems))
        return cls(**values)  # type: ignore[arg-type]
