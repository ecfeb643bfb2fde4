"""Embedded servers that a test stops, crashes and starts again at the same addresses."""

import os
import signal

from service.operations.local.embedded import postgres, valkey
from service.operations.local.embedded.servers import EmbeddedServers
from tests.embedded.processes import wait_until


class StoppableServers(EmbeddedServers):
    def crash_postgres(self) -> None:
        """Let PostgreSQL end without a checkpoint; return once it has recovered."""
        pid, placement = self.supervisor.programs()[postgres.NAME].pid, self._placement
        assert pid is not None
        assert placement is not None
        os.kill(pid, signal.SIGQUIT)
        assert wait_until(lambda: self.supervisor.programs()[postgres.NAME].pid not in (None, pid))
        assert wait_until(lambda: postgres.answers(placement))

    def stop_redis(self) -> None:
        self.supervisor.stop(valkey.NAME)

    def start_redis(self) -> None:
        """Start Valkey, empty."""
        assert self._placement is not None
        self.supervisor.start(valkey.program(self._placement))
        assert wait_until(lambda: valkey.answers(self.redis_url))
