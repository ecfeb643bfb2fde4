"""How gunicorn serves the application.

`gunicorn --config python:service.web.server.gunicorn_config`

Two processes, a few threads each: the work of a request is short, and what waits, waits for the
database. Nothing is preloaded, since a library that starts threads does not survive a fork.
"""

from typing import Any

from service.config import Config

wsgi_app = "service.app:create_app()"
worker_class = "service.web.server.web_process.WebWorker"
logger_class = "service.web.server.web_process.WebLogger"
workers = 2
threads = 12  # a process's pool of 10 connections, and two that only say so (503, health)
keepalive = 15
timeout = 30
# Nobody is a trusted forwarder for being local: a proxy on this machine passes on what clients
# send, and a header named SCRIPT_NAME would change the route. TRUSTED_PROXIES says whom to trust.
forwarded_allow_ips = ""
# Its control socket would lie in the home folder and be shared by every server of a user.
control_socket_disable = True


def on_starting(server: Any) -> None:
    """Requests in flight have as long to end as running audits."""
    server.cfg.set("graceful_timeout", Config.load().stop_seconds)


on_reload = on_starting
