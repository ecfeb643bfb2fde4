"""An event that signals set, for processes that only wait between what they do."""

import signal
from threading import Event, Thread


def make_stop_event() -> Event:
    """Return an event that SIGTERM and SIGINT set; only the main thread may call this."""
    stopping = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        # A thread sets it: the wait that the signal interrupts may hold the lock of the event.
        signal.signal(number, lambda _number, _frame: Thread(target=stopping.set).start())
    return stopping
