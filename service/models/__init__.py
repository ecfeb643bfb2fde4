"""The tables, one file per noun, and the queries that several callers share."""

from service.models.access.credentials import IngestKey, ReadToken
from service.models.access.oauth import OAuthApplication, OAuthCode, OAuthToken
from service.models.audits.audit_settings import AuditSettings
from service.models.audits.audits import Audit, FindingRow, ReportRow
from service.models.audits.capacity import FailedWork
from service.models.audits.idempotency import IdempotencyKey
from service.models.audits.queue_order import AccountTurn
from service.models.audits.report_links import ReportLink
from service.models.base import Base
from service.models.billing.payments import Credit, Customer, Payment, PaymentEvent
from service.models.calls.account_audits import AccountCalls
from service.models.calls.account_findings import (
    AccountFinding,
    FindingChange,
    FindingRecord,
    FindingSaving,
)
from service.models.calls.call_files import CallFile, CallImport, DeletedCalls, ReplacedImport
from service.models.calls.daily_spend import PlanRow, SpendDay, SpendGroup, SpendRow
from service.models.calls.plan_limits import PlanLimit
from service.models.calls.plans import Plan
from service.models.calls.series_colors import SeriesColor
from service.models.calls.traffic import TrafficRow
from service.models.connections.agent_totals import AgentPoint, AgentTotal
from service.models.connections.bill import BillMonth
from service.models.connections.connections import ProviderConnection
from service.models.connections.reported import (
    ConnectionPull,
    ReportedActivity,
    ReportedCost,
    ReportedName,
    ReportedUsage,
)
from service.models.identity.accounts import Account, Subscription
from service.models.identity.early_access import EarlyAccess
from service.models.identity.passkeys import Passkey, PendingSignIn, RecoveryCode
from service.models.identity.security_events import SecurityEvent
from service.models.identity.sign_in import MagicLink, WebSession
from service.models.imports.span_batches import SpanBatch
from service.models.imports.span_notices import SpanNotice
from service.models.mail.outbox import Mail
from service.models.notices.deliveries import NoticeDelivery
from service.models.notices.targets import NoticeTarget
from service.models.operations.admin_actions import AdminAction
from service.models.operations.chart_marks import ChartMark
from service.models.operations.price_updates import PriceUpdate
from service.models.operations.saved_views import SavedView
from service.models.operations.stored_data import StoredData
from service.models.watching.budgets import Budget, BudgetNotice
from service.models.watching.watches import AccountWatch, UnusualDay
