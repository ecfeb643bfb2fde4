"""The tables, one file a noun, and the queries that more than one caller needs."""

from service.models.accounts import Account, Subscription
from service.models.admin_acts import AdminAct
from service.models.audits import Audit, FindingRow, IdempotencyKey, ReportRow
from service.models.base import Base
from service.models.billing import Credit, Customer, Payment, PaymentEvent
from service.models.credentials import IngestKey, ReadToken
from service.models.early_access import EarlyAccess
from service.models.mails import Mail
from service.models.oauth import OAuthApplication, OAuthCode, OAuthToken
from service.models.sign_in import MagicLink, WebSession

__all__ = [
    "Account",
    "AdminAct",
    "Audit",
    "Base",
    "Credit",
    "Customer",
    "EarlyAccess",
    "FindingRow",
    "IdempotencyKey",
    "IngestKey",
    "MagicLink",
    "Mail",
    "OAuthApplication",
    "OAuthCode",
    "OAuthToken",
    "Payment",
    "PaymentEvent",
    "ReadToken",
    "ReportRow",
    "Subscription",
    "WebSession",
]
