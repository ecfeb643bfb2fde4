"""Store how often and when keys and tokens were used."""

from datetime import datetime

from sqlalchemy import func, update
from sqlalchemy.orm import Session

from service.models.access.credentials import IngestKey, ReadToken
from service.models.access.oauth import OAuthToken

CredentialTable = type[IngestKey] | type[ReadToken] | type[OAuthToken]


def add_credential_usage(
    session: Session, table: CredentialTable, row_id: str, last_used_at: datetime, count: int
) -> None:
    """Add uses to a credential's row; do nothing if it was deleted in the meantime."""
    latest = func.greatest(table.last_used_at, last_used_at)  # ignores NULL
    values = {"last_used_at": latest, "uses": table.uses + count}
    session.execute(update(table).where(table.id == row_id).values(values))
