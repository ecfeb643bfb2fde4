"""The end of a process or of a server in it: open streams are counted, and the queue is sent.

None of these functions raises: what they are called by would print it.
"""

from __future__ import annotations

import functools
from typing import Callable

from tallystick import capture
from tallystick.capture import Capture

# Below the quarter of a second that we may delay an exit, because busy machines wake threads late.
EXIT_SECONDS = 0.15
# Process managers wait ten seconds and more between SIGTERM and SIGKILL.
TERMINATION_SECONDS = 2.0


def _guarded(act: Callable[[Capture], None]) -> Callable[[], None]:
    """Return what acts on the active capture, if there is one, and never raises."""

    @functools.wraps(act)
    def act_on_active() -> None:
        try:
            if capture.active is not None:
                act(capture.active)
        except Exception:
            capture.note_fault()

    return act_on_active


@_guarded
def at_exit(current: Capture) -> None:
    """Send the queue once, even if several exit hooks call this: each would wait for the server."""
    if not current.delivery.is_closing:
        end_open_streams(current)
        current.delivery.close(current.settings.exit_timeout)


@_guarded
def at_termination(current: Capture) -> None:
    """Send the queue, even while an exit waits for that: the signal ends its waiting."""
    end_open_streams(current)
    current.delivery.close(max(TERMINATION_SECONDS, current.settings.exit_timeout))


@_guarded
def at_server_end(current: Capture) -> None:
    """Send the queue of a server that has stopped; its process may go on and make more calls."""
    count_read_responses(current)
    current.delivery.flush(max(TERMINATION_SECONDS, current.settings.exit_timeout))


@_guarded
def before_fork(current: Capture) -> None:
    """End the thread while it has nothing to do, so that Python does not warn of it."""
    current.delivery.rest()


def end_open_streams(current: Capture) -> None:
    for call in list(current.open_streams.values()):
        call.end()
    count_read_responses(current, is_over=True)


def count_read_responses(current: Capture, *, is_over: bool = False) -> None:
    """Count raw responses that were read and not parsed; the program still holds them."""
    try:
        for response in [found() for found in list(current.unparsed.values())]:
            if response is not None:
                response.end(is_over=is_over)
    except Exception:
        capture.note_fault()
