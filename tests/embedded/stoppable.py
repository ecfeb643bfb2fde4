"""Embedded servers that a test stops, crashes and starts again at the same addresses."""

import os
import signal
from contextlib import suppress

from service.operations.local import postgres, valkey
from service.operations.local.servers import EmbeddedServers
from tests.embedded.processes import wait_until


class StoppableServers(EmbeddedServers):
    def crash_postgres(self) -> None:
        """Let PostgreSQL end without a checkpoint; return once it has recovered."""
        placement = self._placement
        assert placement is not None

        def running() -> int | None:
            return self.supervisor.programs()[postgres.NAME].pid

        # It may be down, before and after: other kills came before this one.
        assert wait_until(lambda: running() is not None)
        if (crashed := running()) is not None:
            with suppress(ProcessLookupError):
                os.kill(crashed, signal.SIGQUIT)
        assert wait_until(lambda: running() not in (None, crashed))
        assert wait_until(lambda: postgres.answers(placement))

    def stop_redis(self) -> None:
        self.supervisor.stop(valkey.NAME)

    def start_redis(self) -> None:
        """Start Valkey, empty."""
        assert self._placement is not None
        self.supervisor.start(valkey.program(self._placement))
        assert wait_until(lambda: valkey.answers(self.redis_url))
