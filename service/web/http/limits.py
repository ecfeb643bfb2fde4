"""Rate limits: the limiter and the keys it counts by."""

import math
import time
from collections.abc import Callable
from typing import Final

from flask import Flask, g, request
from flask_limiter import Limiter, RequestLimit

from service.config import Config
from service.core.redis import connection_options
from service.web.http.current import current_config


def client_address() -> str:
    """Return the peer's address, or the address that the trusted proxies report."""
    return request.remote_addr or "unknown"


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


def init_limits(app: Flask, config: Config) -> None:
    app.config.update(
        RATELIMIT_STORAGE_URI=config.redis_url.replace("unix://", "redis+unix://", 1),
        RATELIMIT_STORAGE_OPTIONS=connection_options(config),
    )
    limiter.init_app(app)
