"""Rate limits: the limiter and the keys it counts by."""

import math
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from flask import Flask, g, request
from flask_limiter import Limiter, RequestLimit

from service.config import Config
from service.core.redis import connection_options
from service.errors import UnavailableError
from service.web.http.current import IS_BUSY, current_config

_IPV6_NETWORK_BITS: Final = 64


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
