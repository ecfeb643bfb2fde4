"""Connections to Redis that fail soon where it is down, and survive its restarts."""

from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from service.config import Config


def connection_options(config: Config) -> dict[str, Any]:
    """Return short timeouts, and one retry for a connection that was cut, none for a hang."""
    return {
        "socket_timeout": config.redis_timeout_seconds,
        "socket_connect_timeout": config.redis_timeout_seconds,
        "retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    }


def connect(config: Config, **options: Any) -> "Redis":
    """Return a client that connects at first use; `options` replace the usual ones."""
    client: Redis = Redis.from_url(config.redis_url, **{**connection_options(config), **options})
    return client
