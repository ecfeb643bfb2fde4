"""Claim one audit, as a worker does that finds no other in the queue."""

from sqlalchemy import Connection

from service.models.audits.leases import Claim, claim_each


def claim_audit(connection: Connection, audit_id: str, lease_seconds: float) -> Claim | None:
    claims = claim_each(connection, [audit_id], lease_seconds=lease_seconds, max_attempts=3)
    return claims[0] if claims else None
