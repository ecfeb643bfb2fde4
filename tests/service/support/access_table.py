"""The response of each route to each kind of credential, of its own account and of another.

A row has the response to a credential that the route doesn't accept, and for each that it accepts,
the responses to its own account and to another account.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from service.web.auth.scopes import SCOPES
from tests.service.support.scenes import batch

READ_AUDITS, READ_FINDINGS = SCOPES
SESSION, KEY, ADMIN = "session", "ingest key", "admin"
RT_AUDITS, RT_FINDINGS, RT_BOTH = "read token: audits", "read token: findings", "read token: both"
AT_AUDITS, AT_FINDINGS, AT_BOTH = (
    "access token: audits",
    "access token: findings",
    "access token: both",
)
LIST_READERS = (RT_AUDITS, RT_BOTH, AT_AUDITS, AT_BOTH)
FINDINGS_READERS = (RT_FINDINGS, RT_BOTH, AT_FINDINGS, AT_BOTH)
BOTH_READERS = (RT_BOTH, AT_BOTH)
READERS = (RT_AUDITS, RT_FINDINGS, RT_BOTH, AT_AUDITS, AT_FINDINGS, AT_BOTH)
CREDENTIALS = ("none", KEY, *READERS, SESSION, ADMIN)


class Cell(NamedTuple):
    """The responses to the credential's own tenant and to another tenant."""

    mine: int
    others: int


@dataclass(frozen=True)
class Row:
    denied: int
    taken: Mapping[str, Cell]
    body: Mapping[str, Any] | None = None

    def cell(self, credential: str) -> Cell:
        return self.taken.get(credential, Cell(self.denied, self.denied))


def _open(status: int = 200, **body: Any) -> Row:
    """For everybody, whatever credential comes along."""
    return Row(status, {}, body or None)


def _reading(readers: tuple[str, ...], own: int = 200, others: int = 404) -> Row:
    lacking = {one: Cell(403, 403) for one in READERS}
    return Row(401, lacking | {one: Cell(own, others) for one in readers})


def _page(others: int = 200) -> Row:
    """Who is not signed in is led to sign-in."""
    return Row(303, {SESSION: Cell(200, others)})


def _form(mine: int = 303, others: int | None = None, /, **form: Any) -> Row:
    """A form of somebody who is signed in, with its token."""
    return Row(403, {SESSION: Cell(mine, mine if others is None else others)}, {"form": form})


def _admin(mine: int, **body: Any) -> Row:
    """Administrators are of no tenant."""
    return Row(404, {ADMIN: Cell(mine, mine)}, body or None)


APPLICATION = {"name": "x", "redirect_uris": "https://x.example/"}
PAYMENT = {
    "email": "x@example.org",
    "provider": "comp",
    "reference": "1",
    "amount": 0,
    "kind": "credit",
}
LIMITS = {
    "limits": [
        {
            "provider": "codex",
            "window_minutes": 300,
            "resets_at": "2026-03-02T14:00:00Z",
            "used_percent": 38,
        }
    ]
}
TABLE: Mapping[tuple[str, str], Row] = {
    ("POST", "/api/v1/ingest"): Row(401, {KEY: Cell(201, 201)}, {"json": batch()}),
    ("POST", "/api/v2/ingest"): Row(401, {KEY: Cell(201, 201)}, {"json": batch()}),
    ("POST", "/api/v1/plan-limits"): Row(401, {KEY: Cell(200, 200)}, {"json": LIMITS}),
    ("POST", "/otlp/v1/traces"): Row(401, {KEY: Cell(200, 200)}, {"json": {}}),
    ("POST", "/otlp/v1/logs"): Row(401, {KEY: Cell(200, 200)}, {"json": {}}),
    ("POST", "/otlp/v1/metrics"): Row(401, {KEY: Cell(200, 200)}, {"json": {}}),
    ("GET", "/api/v1/audits"): _reading(LIST_READERS, 200, 200),
    ("GET", "/api/v1/audits/<audit_id>"): _reading(LIST_READERS),
    ("GET", "/api/v1/audits/<audit_id>/findings"): _reading(FINDINGS_READERS),
    ("GET", "/api/v1/audits/<audit_id>/report"): _reading(BOTH_READERS),
    # Signed in, but without a credit: the body is not even looked at.
    ("POST", "/api/v1/audits"): Row(401, {SESSION: Cell(402, 402)}),
    ("GET", "/api/v1/findings"): _reading(FINDINGS_READERS, 200, 200),
    ("POST", "/api/v1/account-audits"): Row(401, {SESSION: Cell(422, 422)}),  # without calls
    ("POST", "/api/v1/span-imports"): Row(401, {SESSION: Cell(202, 202)}),
    ("GET", "/api/v1/audits/<audit_id>/status"): Row(401, {SESSION: Cell(200, 404)}),
    ("GET", "/api/v1/spend"): _reading(LIST_READERS, 200, 200),
    ("GET", "/api/v1/compare"): _reading(LIST_READERS, 200, 200),
    ("GET", "/api/v1/plan-usage"): _reading(LIST_READERS, 200, 200),
    ("GET", "/api/v1/reconciliation"): _reading(LIST_READERS, 200, 200),
    ("GET", "/api/v1/future-calls"): _reading(LIST_READERS, 200, 200),
    ("DELETE", "/api/v1/future-calls"): Row(401, {SESSION: Cell(202, 202)}),
    ("GET", "/api/v1/marks"): _reading(LIST_READERS, 200, 200),
    ("POST", "/api/v1/marks"): Row(401, {KEY: Cell(201, 201)}, {"json": {"words": "Deploy"}}),
    ("DELETE", "/api/v1/marks/<mark_id>"): Row(401, {KEY: Cell(200, 404)}),
    ("GET", "/api/v1/report-links"): _reading(LIST_READERS, 200, 200),
    ("DELETE", "/api/v1/report-links/<audit_id>"): Row(401, {SESSION: Cell(200, 404)}),
    # What the provider signed is asked for, whatever credential comes along.
    ("POST", "/api/v1/webhooks/stripe"): _open(400),
    ("POST", "/api/v1/webhooks/paddle"): _open(400),
    ("POST", "/api/v1/early-access"): _open(200, json={"email": "x@example.org"}),
    # Anyone with the link may read it, with any credential.
    ("GET", "/r/<token>"): _open(),
    ("GET", "/r/<token>/pdf"): _open(),
    ("GET", "/r/<token>/json"): _open(),
    ("GET", "/r/<token>/findings.csv"): _open(),
    ("GET", "/admin"): _admin(200),
    ("POST", "/admin/audits/<audit_id>/purge"): _admin(200),
    ("GET", "/admin/audits/<audit_id>/report"): _admin(200),
    ("POST", "/admin/audits/<audit_id>/rerun"): _admin(422),  # its blob was never stored
    ("POST", "/admin/accounts/<account_id>/sign-out"): _admin(200),
    ("POST", "/admin/payments/mark-paid"): _admin(200, json=PAYMENT),
    ("GET", "/admin/early-access.csv"): _admin(200),
    ("GET", "/admin/openapi.json"): _admin(200),
    ("GET", "/dashboard"): _page(),
    ("POST", "/dashboard/audit"): _form(),
    ("GET", "/dashboard/first"): _page(),
    ("POST", "/dashboard/key"): _form(200),
    ("GET", "/go"): _page(),
    ("POST", "/spend/marks"): _form(day="2026-03-01", words="Deploy"),
    ("POST", "/spend/marks/<mark_id>/remove"): _form(303, 404),
    ("POST", "/views"): _form(page="/spend", name="Mine"),
    ("POST", "/views/<view_id>/remove"): _form(303, 404),
    ("POST", "/imports/spans"): _form(),
    ("GET", "/imports"): _page(),
    ("GET", "/imports/future"): _page(),
    ("POST", "/imports/future/delete"): _form(),
    ("GET", "/findings"): _page(),
    ("POST", "/findings"): _form(action="fix"),
    ("POST", "/findings/undo"): _form(),
    ("GET", "/findings.csv"): _page(),
    ("GET", "/findings.xlsx"): _page(),
    ("GET", "/findings/<finding_id>"): _page(404),
    ("POST", "/findings/<finding_id>"): _form(303, 404),
    ("GET", "/settings/connections"): _page(),
    ("GET", "/settings/connections/add"): _page(),
    ("POST", "/settings/connections/add"): _form(422),
    ("GET", "/settings/connections/<connection_id>"): _page(404),
    ("POST", "/settings/connections/<connection_id>/key"): _form(422, 404),  # without one
    ("POST", "/settings/connections/<connection_id>/names"): _form(303, 404),
    ("POST", "/settings/connections/<connection_id>/pull"): _form(303, 404),
    ("POST", "/settings/connections/<connection_id>/remove"): _form(303, 404),
    ("GET", "/plan-usage"): _page(),
    ("POST", "/plan-usage/plans"): _form(422),  # without a name
    ("POST", "/plan-usage/plans/<plan_id>/remove"): _form(303, 404),
    ("GET", "/bill"): _page(),
    ("GET", "/bill/savings"): _page(),
    ("GET", "/bill/<provider>/<month>"): _page(),  # each of their own
    ("GET", "/bill/agents/<agent>/<month>"): _page(),  # each of their own
    ("POST", "/bill/<provider>/<month>/discount"): _form(422),  # without a discount
    ("GET", "/spend"): _page(),
    ("GET", "/route"): _page(),
    ("GET", "/compare"): _page(),
    ("GET", "/model"): _page(),
    ("GET", "/spend.csv"): _page(),
    ("GET", "/spend.xlsx"): _page(),
    ("GET", "/spend.focus.csv"): _page(),
    ("GET", "/audits/<audit_id>"): _page(404),
    ("GET", "/audits/<audit_id>/pdf"): _page(404),
    ("GET", "/audits/<audit_id>/json"): _page(404),
    ("POST", "/audits/<audit_id>/recalculate"): _form(422, 404),  # its blob was never stored
    ("POST", "/audits/<audit_id>/cancel"): _form(303, 404),
    ("GET", "/audits/<audit_id>/findings.csv"): _page(404),
    ("GET", "/audits/<audit_id>/calls/<finding_id>.csv"): Row(303, {SESSION: Cell(404, 404)}),
    ("GET", "/audits/<audit_id>/calls/<finding_id>.xlsx"): Row(303, {SESSION: Cell(404, 404)}),
    ("GET", "/audits/<audit_id>/progress"): Row(401, {SESSION: Cell(200, 404)}),
    ("GET", "/upload"): _open(),
    ("POST", "/upload"): Row(303, {SESSION: Cell(402, 402)}),
    ("GET", "/settings"): _page(),
    ("POST", "/settings/profile"): _form(name="x", time_zone="UTC"),
    ("POST", "/settings/report-mails"): _form(report_mails="none"),
    ("POST", "/settings/spend-mails"): _form(spend_mails="none"),
    ("POST", "/settings/tag-attribute"): _form(tag_attribute="gen_ai.agent.name"),
    ("GET", "/settings/assumptions"): _page(),
    ("POST", "/settings/assumptions"): _form(),
    ("POST", "/settings/assumptions/reset"): _form(),
    ("GET", "/settings/recalculate"): _page(),
    ("POST", "/settings/recalculate"): _form(),
    ("GET", "/settings/prices"): _page(),
    ("POST", "/settings/prices"): _form(),
    ("POST", "/settings/prices/models"): _form(422),
    ("GET", "/settings/prices/export"): _page(),
    ("GET", "/settings/budgets"): _page(),
    ("POST", "/settings/budgets"): _form(422),  # without an amount
    ("POST", "/settings/budgets/<budget_id>"): _form(303, 404, amount="5"),
    ("POST", "/settings/budgets/<budget_id>/remove"): _form(303, 404),
    ("GET", "/settings/notices"): _page(),
    ("GET", "/settings/notices/add"): _page(),
    ("POST", "/settings/notices/add"): _form(422),  # without a URL
    ("POST", "/settings/notices/<target_id>/test"): _form(303, 404),
    ("POST", "/settings/notices/<target_id>/enable"): _form(303, 404),
    ("POST", "/settings/notices/<target_id>/remove"): _form(303, 404),
    ("POST", "/settings/notices/deliveries/<delivery_id>/resend"): _form(303, 404),
    ("GET", "/settings/delete"): _page(),
    ("POST", "/settings/delete"): _form(422, email="somebody@example.org"),
    ("GET", "/settings/sessions"): _page(),
    ("POST", "/settings/sessions/<session_id>/revoke"): _form(303, 404),
    ("POST", "/settings/sessions/revoke-others"): _form(),
    ("GET", "/settings/activity"): _page(),
    ("GET", "/settings/passkeys"): _page(),
    ("GET", "/settings/passkeys/add"): _page(),
    ("POST", "/settings/passkeys/add"): _form(422),  # without a passkey's answer
    ("POST", "/settings/passkeys/<passkey_id>/remove"): _form(303, 404),
    ("POST", "/settings/passkeys/recovery-codes"): _form(200),
    # No sign-in waits for a passkey.
    ("GET", "/sign-in/passkey"): _open(303),
    ("POST", "/sign-in/passkey"): Row(403, {SESSION: Cell(303, 303)}, {"form": {}}),
    ("GET", "/settings/report-links"): _page(),
    ("POST", "/settings/report-links/<audit_id>/revoke"): _form(303, 404),
    ("POST", "/settings/report-links/<audit_id>/renew"): _form(200, 404),
    ("POST", "/settings/report-links/<audit_id>/share"): _form(200, 404),
    ("POST", "/settings/report-links/revoke-all"): _form(),
    ("GET", "/sign-in/confirm"): Row(303, {SESSION: Cell(303, 303)}),  # signed in just now
    ("GET", "/settings/applications"): _page(),
    ("POST", "/settings/applications/<application_id>/withdraw"): _form(303, 404),
    ("GET", "/developer"): _page(),
    ("POST", "/developer/ingest-keys"): _form(200),
    ("POST", "/developer/ingest-keys/<key_id>/revoke"): _form(303, 404),
    ("POST", "/developer/ingest-keys/<key_id>/rotate"): _form(200, 422, overlap_hours="1"),
    ("POST", "/developer/read-tokens"): _form(200, scope=READ_AUDITS),
    ("POST", "/developer/read-tokens/<token_id>/revoke"): _form(303, 404),
    ("GET", "/developer/applications"): _page(),
    ("POST", "/developer/applications"): _form(200, None, **APPLICATION),
    ("GET", "/developer/applications/<application_id>"): _page(404),
    ("POST", "/developer/applications/<application_id>"): _form(303, 404, **APPLICATION),
    ("POST", "/developer/applications/<application_id>/rotate-secret"): _form(200, 404),
    ("POST", "/developer/applications/<application_id>/revoke"): _form(303, 404),
    ("GET", "/billing"): _page(),
    ("POST", "/billing/grant"): _form(404),  # this service is not self-hosted
    # The application's question is judged first, and there is none here.
    ("GET", "/oauth/authorize"): _open(400),
    ("POST", "/oauth/authorize"): Row(403, {SESSION: Cell(400, 400)}, {"form": {}}),
    # The secret of an application is in the body; no other credential helps.
    ("POST", "/oauth/token"): _open(401, data={"grant_type": "authorization_code"}),
    ("POST", "/oauth/revoke"): _open(401, data={"token": "at_x"}),
    ("GET", "/.well-known/oauth-authorization-server"): _open(),
    ("POST", "/auth/magic-link"): _open(200, json={"email": "x@example.org"}),
    ("GET", "/auth/verify"): _open(422),
    ("POST", "/auth/verify"): _open(422, json={"token": "ml_x"}),
    ("POST", "/auth/logout"): _open(),
    ("GET", "/sign-in"): _open(),
    ("GET", "/login"): _open(303),
    ("GET", "/signin"): _open(303),
    ("GET", "/signup"): _open(303),
    ("GET", "/"): _open(),
    ("GET", "/sample"): _open(),
    ("GET", "/sample/pdf"): _open(),
    ("GET", "/sample/json"): _open(),
    ("GET", "/sample/findings.csv"): _open(),
    ("GET", "/deleted"): _open(),
    ("GET", "/docs"): _open(),
    ("GET", "/client/"): _open(),
    ("GET", "/client/tallystick/"): _open(),
    ("GET", "/client/files/<digest>/<file_name>"): _open(404),
    ("GET", "/glossary"): _open(),
    ("GET", "/legal/dpa"): _open(),
    ("GET", "/legal/privacy"): _open(),
    ("GET", "/legal/terms"): _open(),
    ("GET", "/.well-known/security.txt"): _open(404),  # no contact is set
    ("GET", "/healthz"): _open(),
    ("GET", "/readyz"): _open(),
    ("GET", "/openapi.json"): _open(),
    ("GET", "/static/<path:filename>"): _open(),
}
