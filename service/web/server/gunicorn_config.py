"""The settings of gunicorn.

`gunicorn --config python:service.web.server.gunicorn_config`

Two processes, each with a few requests at a time, which mostly wait for the database.
The application isn't preloaded, because libraries that start threads don't survive a fork.
"""

from functools import partial
from typing import Any

from service.config import Config
from service.web.http.current import draining
from service.web.intake.turns import upload_turns
from service.web.server.balance import balance, forget_process
from service.web.server.closing import stop_in_order

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
child_exit = forget_process


def on_starting(server: Any) -> None:
    """Share what all processes share, before they are forked."""
    on_reload(server)
    draining.share()
    balance.share()


def on_reload(server: Any) -> None:
    """Give requests in flight as much time to finish as running audits, and share locks."""
    server.cfg.set("graceful_timeout", Config.load().stop_seconds)
    upload_turns.share()


def when_ready(server: Any) -> None:
    """Replace gunicorn's way to stop, for which it has no hook."""
    server.stop = partial(stop_in_order, server, server.stop, Config.load().drain_seconds)
