"""The order of two events that their provider dates to the same moment."""

from typing import Final

# A subscription's life as it goes: of two states at one moment the further one is the later.
_LIFE: Final = (
    "incomplete",
    "trialing",
    "active",
    "past_due",
    "unpaid",
    "paused",
    "incomplete_expired",
    "canceled",
)


def rank_of(kind_rank: int, status: str) -> int:
    """The kind of event decides, then the state that it tells."""
    return kind_rank * (len(_LIFE) + 1) + (_LIFE.index(status) + 1 if status in _LIFE else 0)
