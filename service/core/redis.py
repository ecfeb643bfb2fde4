"""Connections to Redis that fail fast if it is down, and survive its restarts."""

from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from service.config import Config


def connection_options(config: Config) -> dict[str, Any]:
    """Return short timeouts, and one retry for a lost connection but none for a timeout."""
    return {
        "socket_timeout": config.redis_timeout_seconds,
        "socket_connect_timeout": config.redis_timeout_seconds,
        "retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    }


def connect(config: Config, **options: Any) -> "Redis":
    """Return a client that connects on first use; `options` override the defaults.

    It also retries once after a timeout, because RQ ends a worker at its first timeout.
    """
    defaults = {**connection_options(config), "retry": Retry(NoBackoff(), 1)}
    client: Redis = Redis.from_url(config.redis_url, **{**defaults, **options})
    return client
