"""Rate limits: the limiter and the keys it counts by."""

import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, NamedTuple, ParamSpec, TypeVar, cast

from flask import Flask, g, request
from flask_limiter import Limiter, RequestLimit
from limits import RateLimitItemPerMinute
from limits.storage import RedisStorage
from redis import Redis, RedisError
from redis.commands.core import Script

from service.config import Config
from service.core.redis import connection_options
from service.errors import RateLimitedError, UnavailableError, message_for
from service.web.http.current import IS_BUSY, current_config

_IPV6_NETWORK_BITS: Final = 64
_MINUTE: Final = 60
# Each key lists the times of its requests, latest first, as the limiter's moving windows do. A
# request is refused, and not listed, if the oldest of as many as are allowed is in the last minute.
_COUNT: Final = """
local now, seconds, refused = ARGV[1], tonumber(ARGV[2]), false
for number, key in ipairs(KEYS) do
    local most = tonumber(ARGV[number + 2])
    local oldest = redis.call('LINDEX', key, most - 1)
    if oldest and tonumber(oldest) >= now - seconds then
        refused = oldest
    else
        redis.call('LPUSH', key, now)
        redis.call('LTRIM', key, 0, most - 1)
        redis.call('EXPIRE', key, seconds)
    end
end
return refused
"""

P = ParamSpec("P")
R = TypeVar("R")


def client_address() -> str:
    """Return the network to count by, of the peer or of the address that trusted proxies report.

    Providers give each customer an IPv6 network of at least 64 bits, so it counts as one address.
    """
    try:
        address = ip_address((request.remote_addr or "").partition("%")[0])
    except ValueError:  # a Unix socket has no address
        return "unknown"
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    prefix = _IPV6_NETWORK_BITS if isinstance(address, IPv6Address) else address.max_prefixlen
    return str(ip_network((address, prefix), strict=False).network_address)


def per_minute(setting: str) -> Callable[[], str]:
    """Return the limit that a setting holds, read at each request."""

    def limit() -> str:
        return f"{getattr(current_config(), setting)} per minute"

    return limit


def _remember_reset(limit: RequestLimit) -> None:
    g.retry_after_seconds = max(1, math.ceil(limit.window.reset_time - time.time()))


# Moving windows, so that a limit holds over any 60 seconds, not only between two full minutes.
# Where Redis and the fallback both fail within one request, that request passes.
limiter: Final = Limiter(
    client_address,
    strategy="moving-window",
    in_memory_fallback_enabled=True,
    swallow_errors=True,
    on_breach=_remember_reset,
)


class SharedLimit(NamedTuple):
    """A limit per minute, from a setting, of everything that has the same scope and key."""

    setting: str
    scope: str
    key: Callable[[], str]


def limit_at_once(*limits: SharedLimit) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Count each request against several limits with one command, even if one of them refuses.

    The limiter would send one command each, and takes longer for each than this does for all. It
    counts the same requests under the same names where Redis is away.
    """

    def decorate(view: Callable[P, R]) -> Callable[P, R]:
        one_by_one = view
        for limit in limits:
            amount = per_minute(limit.setting)
            one_by_one = limiter.shared_limit(amount, limit.scope, key_func=limit.key)(one_by_one)

        @wraps(view)
        def limited(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                wait = _count_at_once(limits)
            except RedisError:
                return one_by_one(*args, **kwargs)
            if wait:
                raise RateLimitedError(message_for(HTTPStatus.TOO_MANY_REQUESTS), wait)
            return view(*args, **kwargs)

        return limited

    return decorate


def _count_at_once(limits: Sequence[SharedLimit]) -> int:
    """Return the seconds to wait, or 0; raise an error of Redis if it is away, or was."""
    storage = limiter.limiter.storage
    if not isinstance(storage, RedisStorage):  # the limiter counts in memory for a while
        raise RedisError
    amounts, keys, now = list[int](), list[str](), time.time()
    for limit in limits:
        item = RateLimitItemPerMinute(getattr(current_config(), limit.setting))
        keys.append(storage.prefixed_key(item.key_for(limit.key(), limit.scope)))
        amounts.append(item.amount)
    redis = cast("Redis", storage.get_connection())
    oldest = _count_script(redis)(keys, [now, _MINUTE, *amounts])
    return 0 if oldest is None else max(1, math.ceil(float(oldest) + _MINUTE - now))


@lru_cache(maxsize=4)
def _count_script(redis: "Redis") -> Script:
    return redis.register_script(_COUNT)


def refuse_when_busy(app: Flask) -> None:
    """Answer 503 to requests that the server had no room for in time."""

    def refuse() -> None:
        if request.environ.get(IS_BUSY):
            raise UnavailableError

    app.before_request(refuse)


def init_limits(app: Flask, config: Config) -> None:
    app.config.update(
        RATELIMIT_STORAGE_URI=config.redis_url.replace("unix://", "redis+unix://", 1),
        RATELIMIT_STORAGE_OPTIONS=connection_options(config),
    )
    limiter.init_app(app)
