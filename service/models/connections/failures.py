"""Why a connection fails, by the code in its row: what happened, and what to do next."""

from collections.abc import Mapping
from typing import Final

CONNECTION_FAILING: Final = "connection_failing"  # the kind of mail
# By the code of an error: what happened, and what to do next.
REASONS: Final[Mapping[str, tuple[str, str]]] = {
    "revoked": (
        "The key is no longer valid. It was revoked or has expired.",
        "Make a new key and replace this one.",
    ),
    "wrong_key": (
        "This is the wrong kind of key.",
        "Make an admin key and replace this one.",
    ),
    "missing_right": (
        "The key may not read usage or costs.",
        "Give the key that right, or replace it with one that has it.",
    ),
    "provider_down": (
        "The provider doesn't answer.",
        "We keep trying. You don't need to do anything.",
    ),
    "throttled": (
        "The provider asks us to send fewer requests.",
        "We keep trying. You don't need to do anything.",
    ),
    "redirected": (
        "The provider redirected us to another address, which we don't follow.",
        "Ask the operator of this installation to check CONNECTION_URLS and the proxy.",
    ),
    "unreadable": (
        "The provider's response isn't in the documented form.",
        "We keep trying. If it stays, an update of Tallystick may be needed.",
    ),
    "missing_library": (
        "This installation lacks the library that this provider needs.",
        "Ask the operator of this installation to install the extra of this provider.",
    ),
    "internal": (
        "We couldn't store the report because of an error of ours.",
        "We keep trying. The error is logged.",
    ),
}


def explain(code: str) -> tuple[str, str]:
    """Return what happened and what to do next."""
    return REASONS.get(code, REASONS["internal"])
