"""The settings of gunicorn.

`gunicorn --config python:service.web.server.gunicorn_config`

Two processes, each with a few requests at a time, which mostly wait for the database.
The application isn't preloaded, because libraries that start threads don't survive a fork.
"""

import ipaddress
import socket
import time
from typing import Any

from service.config import Config
from service.core.logs import get_logger
from service.web.http.current import draining
from service.web.intake.upload_turns import upload_turns

wsgi_app = "service.app:create_app()"
worker_class = "service.web.server.web_process.WebWorker"
logger_class = "service.web.server.web_process.WebLogger"
workers = 2
threads = 200  # most of them wait for their client; see `slots`
keepalive = 15
timeout = 30
# Local peers aren't trusted, because a proxy on this machine forwards its clients' headers, and a
# SCRIPT_NAME header would change the route. TRUSTED_PROXIES sets the number of trusted proxies.
forwarded_allow_ips = ""
# The control socket would be in the home folder, shared by all servers of a user.
control_socket_disable = True


def on_starting(server: Any) -> None:
    """Share what all processes share, before they are forked."""
    on_reload(server)
    draining.share()


def on_reload(server: Any) -> None:
    """Give requests in flight as much time to finish as running audits, and share locks."""
    server.cfg.set("graceful_timeout", Config.load().stop_seconds)
    upload_turns.share()


def when_ready(server: Any) -> None:
    """Drain before gunicorn stops, for which it has no hook, and warn about an open port."""
    config, stop = Config.load(), server.stop

    def drain_and_stop(graceful: bool = True) -> None:
        if graceful:
            draining.start()
            time.sleep(config.drain_seconds)
        stop(graceful)

    server.stop = drain_and_stop
    is_held = server.systemd or any(isinstance(address, int) for address in server.cfg.address)
    server.worker_class.owns_sockets = not is_held
    if not config.trusted_proxies and any(map(_is_reachable, server.LISTENERS)):
        reason = "other machines can connect, and TRUSTED_PROXIES is 0; see docs/operations.md"
        get_logger(__name__).warning("no_proxy", reason=reason)


def _is_reachable(listener: Any) -> bool:
    """Check whether other machines can connect, past the limits that a proxy would have."""
    if listener.sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    return not ipaddress.ip_address(listener.sock.getsockname()[0]).is_loopback
