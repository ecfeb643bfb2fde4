"""Connections to Redis that fail soon where it is down, and survive its restarts."""

from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from service.config import Config


def connection_options(config: Config) -> dict[str, Any]:
    """Return the rate limiter's: short timeouts, one retry of a cut connection, none of a hang."""
    return {
        "socket_timeout": config.redis_timeout_seconds,
        "socket_connect_timeout": config.redis_timeout_seconds,
        "retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    }


def connect(config: Config, **options: Any) -> "Redis":
    """Return a client that connects at first use; `options` replace the usual ones.

    It retries a hang once too: RQ ends a worker at the first timeout that reaches it.
    """
    usual = {**connection_options(config), "retry": Retry(NoBackoff(), 1)}
    client: Redis = Redis.from_url(config.redis_url, **{**usual, **options})
    return client
