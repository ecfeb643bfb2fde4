"""Signals stop the sweeper and the exporter, whenever they arrive."""

import os
import signal
import sys
from types import FrameType

from service.core.stop_event import make_stop_event
from tests.worker.support.waiting import wait_until


def test_a_stop_signal_while_the_event_is_locked_stops_the_process() -> None:
    child = os.fork()
    if not child:
        stopping = make_stop_event()

        def send_signal(frame: FrameType, event: str, _argument: object) -> None:
            # `wait` calls this with the lock, as the signal would: between two instructions.
            if event == "call" and frame.f_code.co_name == "_is_owned":
                sys.setprofile(None)
                os.kill(os.getpid(), signal.SIGTERM)

        sys.setprofile(send_signal)
        os._exit(0 if stopping.wait(60) else 1)
    try:
        ended = wait_until(lambda: os.waitpid(child, os.WNOHANG)[0] and "ended", 20)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    assert ended
