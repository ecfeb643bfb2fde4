"""PostgreSQL and Valkey under a data folder, for a machine that has neither.

Nothing here is used where `DATABASE_URL` and `REDIS_URL` point to servers of one's own.
"""

from service.operations.local.embedded.errors import (
    AlreadyRunningError,
    ServersError,
    ServerStartError,
)
from service.operations.local.embedded.lock import find_owner
from service.operations.local.embedded.servers import EmbeddedServers

__all__ = [
    "AlreadyRunningError",
    "EmbeddedServers",
    "ServerStartError",
    "ServersError",
    "find_owner",
]
