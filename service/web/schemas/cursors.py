"""Cursors: opaque strings that encode where the next page of a list begins."""

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Final

from service.models.audits.audits import Cursor

MAX_LENGTH: Final = 200
# Microseconds since 1970, and an ID.
_SHAPE: Final = re.compile(r"([0-9]{1,16})\.([A-Za-z0-9._-]{1,64})", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def make_cursor(position: Cursor) -> str:
    age = position.created_at - _EPOCH
    microseconds = (age.days * 86_400 + age.seconds) * 1_000_000 + age.microseconds
    text = f"{microseconds}.{position.id}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def find_cursor(cursor: str) -> Cursor | None:
    """Decode a cursor that `make_cursor` wrote; return None for anything else."""
    if not cursor.isascii() or len(cursor) > MAX_LENGTH:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        found = _SHAPE.fullmatch(text.decode("ascii"))
        if found is None:
            return None
        seconds, microseconds = divmod(int(found[1]), 1_000_000)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=microseconds)
    except (binascii.Error, ValueError, OverflowError, OSError):
        return None
    return Cursor(moment, found[2])
