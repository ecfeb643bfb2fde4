"""The types of events, which are public API, and the ID that receivers know an event by."""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from service.models.base import new_id

_PREFIX: Final = "evt_"
_HASH_LENGTH: Final = 32

TEST: Final = "test"  # sent by a button to one target, whichever events it wants
REPORT_READY: Final = "report.ready"
UNUSUAL_SPEND: Final = "spend.unusual"
BUDGET_REACHED: Final = "budget.reached"


class EventType(NamedTuple):
    """`heading` leads the message to people; `choice` is the option in the form."""

    heading: str
    choice: str


# What a target can ask for.
EVENTS: Final[Mapping[str, EventType]] = {
    REPORT_READY: EventType("Report ready", "The report of an uploaded file is ready"),
    UNUSUAL_SPEND: EventType("Unusual spend", "A day's spend is far above its usual"),
    BUDGET_REACHED: EventType(
        "Budget reached", "A budget is 50%, 80% or 100% spent, or its forecast exceeds it"
    ),
}


def new_event_id() -> str:
    return f"{_PREFIX}{new_id()}"


def heading_of(event_type: str) -> str:
    """Return the heading of a type, also of one that a later release has posted."""
    known = EVENTS.get(event_type)
    return known.heading if known else f"{event_type.replace('.', ' ').capitalize()} notice"


def event_id_of(account_id: str, event_type: str, dedupe_key: str) -> str:
    """Return the same ID for the same event, so that posting it twice changes nothing."""
    text = f"{account_id} {event_type} {dedupe_key}"
    return f"{_PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]}"
