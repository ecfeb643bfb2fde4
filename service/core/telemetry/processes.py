"""What every process of the service begins with: its log, its counters, reports, traces.

prometheus-client can write a process's counters to files named by an identifier. Process IDs would
create new files at every audit, because each audit has its own process. So the identifier is a slot
that a process locks; the next process that takes the slot continues its counters. A job inherits
its worker's slot with the lock.
"""

import fcntl
import itertools
import os
from pathlib import Path
from typing import Final

from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict

from service.config import Config
from service.core.logs import configure_logging, get_logger
from service.core.telemetry.error_reports import flush_reports, start_reports
from service.core.telemetry.traces import flush_traces, start_traces

_KINDS: Final = ("counter", "histogram")
# Allocated in advance, because a mapped file on a full disk would kill the process.
_FILE_BYTES: Final = 1 << 20

_log = get_logger(__name__)
_slot: "CounterSlot | None" = None


def begin_process(config: Config) -> None:
    """Let operators see this process. It may fork afterwards: nothing here starts a thread."""
    configure_logging(config.log_level)
    _count_together(config)
    start_reports(config)
    start_traces(config)


def end_process() -> None:
    """Send what operators should still see, before a process ends without its exit handlers."""
    flush_reports()
    flush_traces()


class CounterSlot:
    """A number that no other process uses while this process or a child of it is alive."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for self.number in itertools.count():
            # Never closed; the last process that inherited the descriptor releases the lock.
            lock = os.open(folder / f"place-{self.number}.lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            break
        for kind in _KINDS:
            path = folder / f"{kind}_{self.number}.db"
            try:
                list(MmapedDict.read_all_values_from_file(str(path)))  # type: ignore[no-untyped-call]
            except Exception:  # missing, or broken, for which the library has no error of its own
                temporary = path.with_suffix(".new")
                temporary.write_bytes(bytes(_FILE_BYTES))
                temporary.rename(path)


def _count_together(config: Config) -> None:
    """Share counters with `tallystick metrics` if a folder is configured.

    No file is opened before the first count, so the process may still fork.
    """
    global _slot
    if _slot is not None or not config.metrics_folder:
        return
    try:
        slot = CounterSlot(Path(config.metrics_folder))
    except OSError as error:
        _log.warning("counts_not_shared", error_type=type(error).__name__)
        return
    # The library reads the folder from here and nowhere else.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = config.metrics_folder
    values.ValueClass = values.MultiProcessValue(  # type: ignore[no-untyped-call]
        lambda: slot.number
    )
    _slot = slot
