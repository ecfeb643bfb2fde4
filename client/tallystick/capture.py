"""State shared by the hooks while capture is on: settings, counters, delivery.

`active` is None until `init()` finds a destination; every hook then lets calls through untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from typing import Protocol

    from tallystick.sending.delivery import Delivery

    class OpenStream(Protocol):
        """A call whose stream has not ended."""

        def end(self) -> None: ...

    class RawResponse(Protocol):
        """A raw response that was not parsed, and may never be."""

        def end(self, *, is_over: bool) -> None: ...


# A call of any other endpoint that has no usage costs no tokens.
BILLED_BY_TOKENS = (
    *("chat/completions", "completions", "responses", "embeddings", "messages"),
    *("converse", "invoke", "generateContent", "chat", "conversations", "interactions", "batches"),
)
UNKNOWN_ENDPOINT = "other"
_MOST_ENDPOINTS = 256
_MOST_FIELDS = 100
_REMEMBERED = 1_024
_CLOCKS_DIFFER = 300  # seconds


@dataclass(frozen=True)
class Settings:
    """The arguments of `init()`. `label` is the tag of calls without one."""

    label: str | None
    environment: str | None
    prefix_hash: bool
    prefix_hash_key: bytes | None
    flush_interval: float
    max_queue: int
    exit_timeout: float
    include_usage: bool | frozenset[str]
    debug: bool


class Background:
    """Background responses: counted once, however often they are polled.

    The request that creates a background response gets no usage; each poll gets the same usage once
    the response is done. Any other response was counted when it was created, and fetching it later
    must not count it again. The ID in the URL of a poll identifies it, and that in the response to
    its creation, which is kept in this process only.
    """

    def __init__(self) -> None:
        self._pending: dict[str, None] = {}
        self._counted: dict[str, None] = {}
        self._unanswered: dict[float, None] = {}

    def expect(self, response_id: str | None, asked_at: float) -> None:
        """Note that this process created a background response whose usage is pending.

        If its response was never parsed, the next unknown one that is fetched and was created at
        that time is taken for it.
        """
        if response_id is None:
            _remember(self._unanswered, asked_at)
        else:
            _remember(self._pending, response_id)

    def is_new(self, response_id: str, *, has_usage: bool, created_at: object = None) -> bool:
        """Check if the fetched response should be counted now."""
        if response_id in self._counted:
            return False
        if not has_usage:
            if response_id not in self._pending:
                _remember(self._pending, response_id)
            return False
        is_expected = self._pending.pop(response_id, self) is None
        if not is_expected and isinstance(created_at, (int, float)):
            # A request at that time whose answer has not been seen is forgotten.
            for asked_at in list(self._unanswered):
                if abs(created_at - asked_at) <= _CLOCKS_DIFFER:
                    self._unanswered.pop(asked_at, None)
                    is_expected = True
                    break
        if is_expected:
            _remember(self._counted, response_id)
        return is_expected


def _remember(keys: dict[Any, None], key: Any) -> None:
    if len(keys) >= _REMEMBERED:
        keys.pop(next(iter(keys)), None)
    keys[key] = None


class Capture:
    """The state of one process; calls that began before a fork are counted in the parent."""

    __slots__ = (
        "asked",
        "background",
        "delivery",
        "faults",
        "open_streams",
        "settings",
        "uncaptured",
        "unknown_fields",
        "unparsed",
    )

    def __init__(self, settings: Settings, delivery: Delivery) -> None:
        self.settings = settings
        self.delivery = delivery
        self.background = Background()
        # Of the last call, in the order of an `Asked`: records of calls that ask the same share it.
        self.asked: tuple[Any, ...] = ()
        # Streams with a usage that have not ended. Keyed by identity: adding and removing are
        # atomic.
        self.open_streams: dict[int, OpenStream] = {}
        # Raw responses that are still alive, in the same way.
        self.unparsed: dict[int, ref[RawResponse]] = {}
        self.uncaptured: dict[str, int] = {}  # by endpoint
        # Numbers in usage objects that no name is known of, by path: calls, and the largest.
        self.unknown_fields: dict[str, dict[str, Any]] = {}
        self.faults = 0

    def note_unknown(self, path: str, value: Any) -> None:
        """Count a call whose usage has a number that we don't know, so its cost may be too low."""
        if path not in self.unknown_fields and len(self.unknown_fields) >= _MOST_FIELDS:
            return
        noted = self.unknown_fields.setdefault(path, {"calls": 0, "largest": value})
        noted["calls"] += 1
        noted["largest"] = max(noted["largest"], value)

    def miss(self, endpoint: str | None) -> None:
        """Count a call that made no record, since its response has no usage or no model."""
        name = endpoint or UNKNOWN_ENDPOINT
        if len(self.uncaptured) >= _MOST_ENDPOINTS and name not in self.uncaptured:
            name = UNKNOWN_ENDPOINT
        self.uncaptured[name] = self.uncaptured.get(name, 0) + 1

    def stats(self) -> dict[str, Any]:
        uncaptured = dict(self.uncaptured)
        missing = {"unhooked": sorted(unhooked)} if unhooked else {}
        return {
            **missing,
            **self.delivery.stats(),
            "uncaptured": uncaptured,
            "without_usage": sum(uncaptured.get(name, 0) for name in BILLED_BY_TOKENS),
            "unknown_fields": {path: dict(noted) for path, noted in self.unknown_fields.items()},
            "faults": self.faults,
            "paused": self.delivery.is_paused,
        }


active: Capture | None = None
# Methods that a library has moved or renamed, so that some of its calls are not seen.
unhooked: set[str] = set()


def note_unhooked(name: str) -> None:
    """Note a method that could not be hooked, and log the first time that one is."""
    if name not in unhooked:
        unhooked.add(name)
        import logging

        logging.getLogger("tallystick").warning(
            "%s was not found; some calls are not counted", name
        )


def note_fault() -> None:
    """Count an error of ours; the caller continues as if we were not there."""
    try:
        if active is not None:
            active.faults += 1
    except Exception:  # noqa: S110 - nothing else can be done
        pass
