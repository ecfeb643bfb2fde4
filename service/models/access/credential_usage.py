"""When and how often keys and tokens were used, on their rows."""

from datetime import datetime

from sqlalchemy import func, update
from sqlalchemy.orm import Session

from service.models.access.credentials import IngestKey, ReadToken
from service.models.access.oauth import OAuthToken

Used = type[IngestKey] | type[ReadToken] | type[OAuthToken]


def note_uses(
    session: Session, table: Used, row_id: str, last_used_at: datetime, count: int
) -> None:
    """Add to what is known of a credential; harmless if it was revoked meanwhile."""
    latest = func.greatest(table.last_used_at, last_used_at)  # which passes over NULL
    more = {"last_used_at": latest, "uses": table.uses + count}
    session.execute(update(table).where(table.id == row_id).values(more))
