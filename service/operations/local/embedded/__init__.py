"""PostgreSQL and Valkey in a data folder, for a machine that has neither.

They are not used if `DATABASE_URL` and `REDIS_URL` point to your own servers.
"""

from service.operations.local.embedded.errors import (
    AlreadyRunningError,
    ServersError,
    ServerStartError,
)
from service.operations.local.embedded.ownership import find_owner
from service.operations.local.embedded.servers import EmbeddedServers

__all__ = [
    "AlreadyRunningError",
    "EmbeddedServers",
    "ServerStartError",
    "ServersError",
    "find_owner",
]
