"""The tables, one file a noun, and the queries that more than one caller needs."""

from service.models.accounts import Account, Subscription
from service.models.audits import Audit, FindingRow, IdempotencyKey, ReportRow
from service.models.base import Base
from service.models.credentials import IngestKey, ReadToken

__all__ = [
    "Account",
    "Audit",
    "Base",
    "FindingRow",
    "IdempotencyKey",
    "IngestKey",
    "ReadToken",
    "ReportRow",
    "Subscription",
]
