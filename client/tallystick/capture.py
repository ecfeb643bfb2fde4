"""What hooks share while capturing is on: settings, counters, and where records go.

`active` is None until `init()` finds a destination; every hook then lets calls through untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.background import Background

if TYPE_CHECKING:
    from typing import Protocol

    from tallystick.sending.delivery import Delivery

    class OpenStream(Protocol):
        """A call whose stream has not ended."""

        def end(self) -> None: ...


@dataclass(frozen=True)
class Settings:
    """What `init()` was told. `label` is the tag of calls that have no other."""

    label: str | None
    prefix_hash: bool
    flush_interval: float
    max_queue: int
    debug: bool


class Capture:
    """Of one process: what was begun in the one that it was forked off from is counted there."""

    __slots__ = ("background", "delivery", "faults", "open_streams", "settings", "without_usage")

    def __init__(self, settings: Settings, delivery: Delivery) -> None:
        self.settings = settings
        self.delivery = delivery
        self.background = Background()
        # Streams that have told something and not ended. Keyed by identity: adding and removing are
        # atomic.
        self.open_streams: dict[int, OpenStream] = {}
        self.without_usage = 0
        self.faults = 0

    def stats(self) -> dict[str, Any]:
        return {
            **self.delivery.stats(),
            "without_usage": self.without_usage,
            "faults": self.faults,
            "paused": self.delivery.is_paused,
        }


active: Capture | None = None


def note_fault() -> None:
    """Something of ours went wrong, and its caller goes on as if we were not there."""
    try:
        if active is not None:
            active.faults += 1
    except Exception:  # noqa: S110 - there is nobody left to tell
        pass
