"""Every route has an authentication decision, listed here and checked in the application."""

import pytest
from flask import Flask

from service.app import create_app
from service.config import Config
from tests.cases import each_case

KEY, TOKEN, SESSION = "ingest key", "read token", "session"
SIGNED, OPEN = "signed link", "open"
# A page leads a stranger to sign-in, and a form is refused to who never loaded its page.
PAGE, FORM = "page of a session", "form of a session"
ADMIN = "administrator's token"
CLIENT = "secret of an application"
ASKED = "asked for by an application"  # what is asked is judged before who is asked
PROVIDER = "signed by a provider"  # 404 where that one is not configured, as here

DECISIONS = {
    ("POST", "/api/v1/ingest"): KEY,
    ("POST", "/api/v2/ingest"): KEY,
    ("POST", "/api/v1/plan-limits"): KEY,
    ("POST", "/otlp/v1/traces"): KEY,
    ("POST", "/otlp/v1/logs"): KEY,
    ("POST", "/otlp/v1/metrics"): KEY,
    ("GET", "/api/v1/audits"): TOKEN,
    ("GET", "/api/v1/audits/<audit_id>"): TOKEN,
    ("GET", "/api/v1/audits/<audit_id>/findings"): TOKEN,
    ("GET", "/api/v1/audits/<audit_id>/report"): TOKEN,
    ("POST", "/api/v1/audits"): SESSION,
    ("POST", "/api/v1/account-audits"): SESSION,
    ("POST", "/api/v1/span-imports"): SESSION,
    ("GET", "/api/v1/findings"): TOKEN,
    ("GET", "/api/v1/audits/<audit_id>/status"): SESSION,
    ("GET", "/api/v1/spend"): TOKEN,
    ("GET", "/api/v1/compare"): TOKEN,
    ("GET", "/api/v1/plan-usage"): TOKEN,
    ("GET", "/api/v1/reconciliation"): TOKEN,
    ("GET", "/api/v1/future-calls"): TOKEN,
    ("DELETE", "/api/v1/future-calls"): SESSION,
    ("GET", "/api/v1/marks"): TOKEN,
    ("POST", "/api/v1/marks"): KEY,
    ("DELETE", "/api/v1/marks/<mark_id>"): KEY,
    ("GET", "/api/v1/report-links"): TOKEN,
    ("DELETE", "/api/v1/report-links/<audit_id>"): SESSION,
    ("POST", "/api/v1/webhooks/stripe"): PROVIDER,
    ("POST", "/api/v1/webhooks/paddle"): PROVIDER,
    ("GET", "/r/<token>"): SIGNED,
    ("GET", "/r/<token>/pdf"): SIGNED,
    ("GET", "/r/<token>/json"): SIGNED,
    ("GET", "/r/<token>/findings.csv"): SIGNED,
    ("GET", "/sample"): OPEN,
    ("GET", "/sample/pdf"): OPEN,
    ("GET", "/sample/json"): OPEN,
    ("GET", "/sample/findings.csv"): OPEN,
    ("GET", "/admin"): ADMIN,
    ("POST", "/admin/audits/<audit_id>/purge"): ADMIN,
    ("GET", "/admin/audits/<audit_id>/report"): ADMIN,
    ("POST", "/admin/audits/<audit_id>/rerun"): ADMIN,
    ("POST", "/admin/accounts/<account_id>/sign-out"): ADMIN,
    ("POST", "/admin/payments/mark-paid"): ADMIN,
    ("GET", "/admin/early-access.csv"): ADMIN,
    ("GET", "/admin/openapi.json"): ADMIN,
    ("GET", "/dashboard"): PAGE,
    ("POST", "/dashboard/audit"): FORM,
    ("POST", "/imports/spans"): FORM,
    ("GET", "/imports"): PAGE,
    ("GET", "/imports/future"): PAGE,
    ("POST", "/imports/future/delete"): FORM,
    ("GET", "/findings"): PAGE,
    ("POST", "/findings"): FORM,
    ("GET", "/findings.csv"): PAGE,
    ("GET", "/findings.xlsx"): PAGE,
    ("GET", "/findings/<finding_id>"): PAGE,
    ("POST", "/findings/<finding_id>"): FORM,
    ("GET", "/settings/connections"): PAGE,
    ("GET", "/settings/connections/add"): PAGE,
    ("POST", "/settings/connections/add"): FORM,
    ("GET", "/settings/connections/<connection_id>"): PAGE,
    ("POST", "/settings/connections/<connection_id>/key"): FORM,
    ("POST", "/settings/connections/<connection_id>/names"): FORM,
    ("POST", "/settings/connections/<connection_id>/pull"): FORM,
    ("POST", "/settings/connections/<connection_id>/remove"): FORM,
    ("GET", "/bill/savings"): PAGE,
    ("GET", "/bill/<provider>/<month>"): PAGE,
    ("POST", "/bill/<provider>/<month>/discount"): FORM,
    ("GET", "/spend"): PAGE,
    ("GET", "/route"): PAGE,
    ("GET", "/compare"): PAGE,
    ("GET", "/bill"): PAGE,
    ("GET", "/plan-usage"): PAGE,
    ("POST", "/plan-usage/plans"): FORM,
    ("POST", "/plan-usage/plans/<plan_id>/remove"): FORM,
    ("GET", "/go"): PAGE,
    ("GET", "/dashboard/first"): PAGE,
    ("POST", "/dashboard/key"): FORM,
    ("POST", "/spend/marks"): FORM,
    ("POST", "/spend/marks/<mark_id>/remove"): FORM,
    ("POST", "/views"): FORM,
    ("POST", "/views/<view_id>/remove"): FORM,
    ("POST", "/findings/undo"): FORM,
    ("GET", "/model"): PAGE,
    ("GET", "/spend.csv"): PAGE,
    ("GET", "/spend.xlsx"): PAGE,
    ("GET", "/spend.focus.csv"): PAGE,
    ("GET", "/audits/<audit_id>"): PAGE,
    ("GET", "/audits/<audit_id>/pdf"): PAGE,
    ("GET", "/audits/<audit_id>/json"): PAGE,
    ("GET", "/audits/<audit_id>/findings.csv"): PAGE,
    ("GET", "/audits/<audit_id>/calls/<finding_id>.csv"): PAGE,
    ("GET", "/audits/<audit_id>/calls/<finding_id>.xlsx"): PAGE,
    ("GET", "/audits/<audit_id>/progress"): SESSION,
    ("POST", "/audits/<audit_id>/recalculate"): FORM,
    ("POST", "/audits/<audit_id>/cancel"): FORM,
    ("GET", "/upload"): OPEN,
    ("POST", "/upload"): PAGE,  # its token comes with the file, which a stranger's is not read
    ("GET", "/settings"): PAGE,
    ("POST", "/settings/profile"): FORM,
    ("POST", "/settings/report-mails"): FORM,
    ("POST", "/settings/spend-mails"): FORM,
    ("POST", "/settings/tag-attribute"): FORM,
    ("GET", "/settings/recalculate"): PAGE,
    ("POST", "/settings/recalculate"): FORM,
    ("GET", "/settings/assumptions"): PAGE,
    ("POST", "/settings/assumptions"): FORM,
    ("POST", "/settings/assumptions/reset"): FORM,
    ("GET", "/settings/prices"): PAGE,
    ("POST", "/settings/prices"): FORM,
    ("POST", "/settings/prices/models"): FORM,
    ("GET", "/settings/prices/export"): PAGE,
    ("GET", "/settings/budgets"): PAGE,
    ("POST", "/settings/budgets"): FORM,
    ("POST", "/settings/budgets/<budget_id>"): FORM,
    ("POST", "/settings/budgets/<budget_id>/remove"): FORM,
    ("GET", "/settings/notices"): PAGE,
    ("GET", "/settings/notices/add"): PAGE,
    ("POST", "/settings/notices/add"): FORM,
    ("POST", "/settings/notices/<target_id>/test"): FORM,
    ("POST", "/settings/notices/<target_id>/enable"): FORM,
    ("POST", "/settings/notices/<target_id>/remove"): FORM,
    ("POST", "/settings/notices/deliveries/<delivery_id>/resend"): FORM,
    ("GET", "/settings/delete"): PAGE,
    ("POST", "/settings/delete"): FORM,
    ("GET", "/developer"): PAGE,
    ("POST", "/developer/ingest-keys"): FORM,
    ("POST", "/developer/ingest-keys/<key_id>/revoke"): FORM,
    ("POST", "/developer/ingest-keys/<key_id>/rotate"): FORM,
    ("POST", "/developer/read-tokens"): FORM,
    ("POST", "/developer/read-tokens/<token_id>/revoke"): FORM,
    ("GET", "/developer/applications"): PAGE,
    ("POST", "/developer/applications"): FORM,
    ("GET", "/developer/applications/<application_id>"): PAGE,
    ("POST", "/developer/applications/<application_id>"): FORM,
    ("POST", "/developer/applications/<application_id>/rotate-secret"): FORM,
    ("POST", "/developer/applications/<application_id>/revoke"): FORM,
    ("GET", "/settings/activity"): PAGE,
    ("GET", "/settings/passkeys"): PAGE,
    ("GET", "/settings/passkeys/add"): PAGE,
    ("POST", "/settings/passkeys/add"): FORM,
    ("POST", "/settings/passkeys/<passkey_id>/remove"): FORM,
    ("POST", "/settings/passkeys/recovery-codes"): FORM,
    ("GET", "/sign-in/passkey"): PAGE,
    ("POST", "/sign-in/passkey"): FORM,
    ("GET", "/settings/report-links"): PAGE,
    ("POST", "/settings/report-links/<audit_id>/revoke"): FORM,
    ("POST", "/settings/report-links/<audit_id>/renew"): FORM,
    ("POST", "/settings/report-links/<audit_id>/share"): FORM,
    ("POST", "/settings/report-links/revoke-all"): FORM,
    ("GET", "/sign-in/confirm"): PAGE,
    ("GET", "/settings/applications"): PAGE,
    ("POST", "/settings/applications/<application_id>/withdraw"): FORM,
    ("GET", "/oauth/authorize"): ASKED,
    ("POST", "/oauth/authorize"): FORM,
    ("POST", "/oauth/token"): CLIENT,
    ("POST", "/oauth/revoke"): CLIENT,
    ("GET", "/.well-known/oauth-authorization-server"): OPEN,
    ("GET", "/billing"): PAGE,
    ("POST", "/billing/grant"): FORM,
    ("GET", "/settings/sessions"): PAGE,
    ("POST", "/settings/sessions/<session_id>/revoke"): FORM,
    ("POST", "/settings/sessions/revoke-others"): FORM,
    ("POST", "/auth/magic-link"): OPEN,
    ("GET", "/auth/verify"): OPEN,
    ("POST", "/auth/verify"): OPEN,
    ("POST", "/auth/logout"): OPEN,
    ("POST", "/api/v1/early-access"): OPEN,
    ("GET", "/sign-in"): OPEN,
    ("GET", "/login"): PAGE,
    ("GET", "/signin"): PAGE,
    ("GET", "/signup"): PAGE,
    ("GET", "/"): OPEN,
    ("GET", "/deleted"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/client/"): OPEN,
    ("GET", "/client/tallystick/"): OPEN,
    ("GET", "/client/files/<digest>/<file_name>"): OPEN,
    ("GET", "/legal/dpa"): OPEN,
    ("GET", "/legal/privacy"): OPEN,
    ("GET", "/legal/terms"): OPEN,
    ("GET", "/.well-known/security.txt"): OPEN,
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/openapi.json"): OPEN,
    ("GET", "/static/<path:filename>"): OPEN,
}
# What a stranger without any credential is told.
STRANGER = {
    KEY: {401},
    TOKEN: {401},
    SESSION: {401},
    SIGNED: {404},
    PROVIDER: {404},
    ADMIN: {404},
    OPEN: {200, 404, 415, 422, 503},
    CLIENT: {400},
    ASKED: {400},
    PAGE: {303},
    FORM: {403},
}


@pytest.fixture(scope="module")
def app() -> Flask:
    """An application on servers that do not exist: deciding about a stranger needs none."""
    return create_app(
        Config(
            secret_key="a secret key for tests, 32 or longer",
            database_url="postgresql://nobody@/none?host=/nowhere",
            redis_url="unix:///nowhere/valkey.sock",
            storage_url="file:///proc/nowhere",
        )
    )


def _routes(app: Flask) -> set[tuple[str, str]]:
    return {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }


def test_every_route_is_decided_and_every_decision_has_a_route(app: Flask) -> None:
    assert _routes(app) == set(DECISIONS)


@each_case("decided", DECISIONS)
def test_a_request_without_credentials_gets_the_decided_response(
    app: Flask, decided: tuple[str, str]
) -> None:
    method, rule = decided
    path = rule.replace("<audit_id>", "x").replace("<token>", "x").replace("<session_id>", "x")
    path = path.replace("<path:filename>", "tallystick.css")
    for tried in (method, "HEAD") if method == "GET" else (method,):
        with app.test_client().open(path, method=tried) as response:
            assert response.status_code in STRANGER[DECISIONS[decided]]


@each_case("decided", [one for one, by in DECISIONS.items() if by in (KEY, TOKEN, SESSION)])
def test_options_without_credentials_lists_the_methods_and_nothing_else(
    app: Flask, decided: tuple[str, str]
) -> None:
    response = app.test_client().options(decided[1].replace("<audit_id>", "x"))
    assert response.status_code == 200
    assert response.data == b""
