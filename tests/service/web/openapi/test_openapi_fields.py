"""Every field and parameter in both OpenAPI documents, no more and no less.

A `?` marks optional fields. `described.watch` checks every response of every test against the
document. The report's own schemas are generated from its types.
"""

from typing import Any, Final

from service.web.openapi.report_schema import report_schemas
from tests.service.support.described import operations

SUMS: Final = (
    "calls unpriced_calls prompt_tokens completion_tokens cached_tokens cache_write_tokens"
    " cost_usd list_usd"
)
CHANGE: Final = "before_usd after_usd change_usd change_pct?"
FIELDS: Final = {
    "PaymentLink": "provider url",
    "ErrorDetail": "code message request_id payment_links?",
    "Error": "error",
    "UsageRecord": "ts provider model prompt_tokens completion_tokens cached_tokens?"
    " cache_write_tokens? latency_ms? endpoint? request_id? tag? declared_max_tokens? prefix_hash?",
    "UsageRecordV2": "ts provider model prompt_tokens completion_tokens cached_tokens?"
    " cache_write_tokens? latency_ms? endpoint? request_id? tag? declared_max_tokens? prefix_hash?"
    " service_tier? cache_write_1h_tokens? reasoning_tokens? audio_prompt_tokens?"
    " audio_completion_tokens? image_prompt_tokens? image_completion_tokens? web_searches?"
    " prefix_hash_16k? prefix_hash_64k? environment? session_id? status? region? units?"
    " reported_usd? prefix_hashes? billing?",
    "Batch": "records",
    "BatchV2": "records",
    "Accepted": "audit_id records replayed",
    "Replayed": "audit_id replayed",
    "Uploaded": "audit_id replayed status_url",
    "AccountAudit": "audit_id status_url",
    "SpanImport": "calls",
    "AccountFinding": "id state detector kind route provider model severity confidence"
    " monthly_cost_impact_usd observed_cost_impact_usd is_monthly calls fix first_seen last_seen"
    " audit_id finding_id assignee note fixed_at? silent_until? realized_savings_usd?"
    " realized_monthly_usd?",
    "AccountFindingList": "findings next_cursor?",
    "AuditSummary": "id status created_at source records observed_days total_spend_usd"
    " projected_spend_usd savings_pct equiv_spend findings projection span_days window_start"
    " monthly_factor verified_savings_usd estimated_savings_usd estimated_savings_low_usd"
    " estimated_savings_high_usd conditional_savings_usd conditional_savings_low_usd"
    " conditional_savings_high_usd",
    "AuditList": "audits next_cursor?",
    "Finding": "id detector route severity confidence monthly_cost_impact_usd fix impact_low"
    " impact_high first_seen last_seen",
    "FindingList": "audit_id findings",
    "AuditStatus": "audit_id status queue_position? valid_pct? error?",
    "Spend": "from to group_by spend totals plan_usage after_today next_cursor?",
    "PlanUsage": "calls unpriced_calls prompt_tokens completion_tokens cached_tokens"
    " cache_write_tokens value_usd",
    "FutureSums": "calls cost_usd",
    "FutureCalls": "calls cost_usd is_deleting lines",
    "FutureLine": "calls cost_usd day route provider model",
    "DeletedFutureCalls": "calls",
    "SpendTotals": SUMS,
    "Comparison": "kind before after is_per_day total routes models findings? notes",
    "PlanReport": "from to totals plans tools projects environments models weeks windows"
    " window_count limits",
    "PlanPeak": "provider environment window_minutes used_percent resets_at windows",
    "PlanLimit": "provider environment? window_minutes resets_at used_percent",
    "PlanLimits": "limits",
    "StoredLimits": "limits",
    "PlanWorth": "provider price_usd value_usd ratio",
    "PlanGroup": "name calls unpriced_calls prompt_tokens completion_tokens cached_tokens"
    " cache_write_tokens value_usd",
    "PlanWeek": "monday calls unpriced_calls prompt_tokens completion_tokens cached_tokens"
    " cache_write_tokens value_usd",
    "PlanWindow": "provider environment start end calls tokens value_usd",
    "ReconciliationList": "reconciliations",
    "Reconciliation": (
        "provider month billed_usd reported_usd counted_usd explained_usd coverage? rate"
        " unexplained_usd parts not_sent other_currencies summary locked_at? locked_billed_usd?"
        " lines?"
    ),
    "Part": "kind usd",
    "Unsent": "project_id project usd",
    "Currency": "currency amount",
    "BillLine": "key name billed_usd reported_usd counted_usd coverage?",
    "Span": "audit_id? from? to? days calls spend_usd",
    "TotalChange": CHANGE,
    "RouteChange": f"route {CHANGE}",
    "ModelChange": f"provider model {CHANGE}",
    "ComparedFinding": "status detector kind route provider model before_usd after_usd",
    "SpendLine": f"day? route? model? provider? environment? {SUMS}",
    "Mark": "id day words created_at",
    "MarkList": "marks",
    "NewMark": "words day?",
    "ReportLink": "audit_id state issued_at expires_at revoked_at? opens last_opened_at?",
    "ReportLinkList": "report_links next_cursor?",
    "EventReceived": "received",
    "EarlyAccess": "email",
    "Message": "message",
    "Health": "status components?",
    "MagicLink": "email next?",
    "Verify": "token",
    "Token": "access_token token_type expires_in scope",
    "OAuthError": "error error_description?",
    "Revoked": "",
    "ServerMetadata": "issuer authorization_endpoint token_endpoint revocation_endpoint"
    " scopes_supported response_types_supported response_modes_supported grant_types_supported"
    " token_endpoint_auth_methods_supported revocation_endpoint_auth_methods_supported"
    " code_challenge_methods_supported authorization_response_iss_parameter_supported"
    " service_documentation",
    "AuditLine": "id status source email attempts created_at age_seconds records size_bytes"
    " raw_purged_at error",
    "AccountLine": "id email created_at plan free_credits",
    "EventLine": "provider event_id type occurred_at received_at",
    "EarlyAccessLine": "email asked_at",
    "ActLine": "act target via acted_at",
    "Waiting": "kind status number oldest_age_seconds",
    "Overview": "accounts acts audits early_access failed_mails mails next_pages payment_events"
    " queue stored_data wake_ups",
    "StoredLine": "account_id call_bytes email measured_at raw_bytes report_bytes spend_bytes"
    " total_bytes",
    "Purged": "audit_id raw_purged_at is_repeat",
    "Rerun": "audit_id status",
    "SignedOut": "account_id sessions",
    "MarkPaid": "email provider reference amount currency? kind? plan?",
    "MarkedPaid": "payment_id account_id is_repeat",
}
# What generated code calls each operation: a name that stays.
NAMES: Final = {
    "post /api/v1/ingest": "ingest_batch",
    "post /api/v1/plan-limits": "send_plan_limits",
    "post /api/v2/ingest": "ingest_batch_v2",
    "post /otlp/v1/traces": "export_traces",
    "post /otlp/v1/logs": "export_logs",
    "post /otlp/v1/metrics": "export_metrics",
    "post /api/v1/audits": "upload_log",
    "post /api/v1/account-audits": "audit_account",
    "post /api/v1/span-imports": "import_spans",
    "get /api/v1/findings": "list_account_findings",
    "get /api/v1/audits": "list_audits",
    "get /api/v1/audits/{audit_id}": "get_audit",
    "get /api/v1/audits/{audit_id}/findings": "list_findings",
    "get /api/v1/audits/{audit_id}/report": "get_report",
    "get /api/v1/audits/{audit_id}/status": "get_status",
    "get /api/v1/spend": "get_spend",
    "get /api/v1/compare": "compare",
    "get /api/v1/plan-usage": "get_plan_usage",
    "get /api/v1/reconciliation": "reconcile",
    "get /api/v1/future-calls": "list_future_calls",
    "delete /api/v1/future-calls": "delete_future_calls",
    "get /api/v1/marks": "list_marks",
    "post /api/v1/marks": "add_mark",
    "delete /api/v1/marks/{mark_id}": "remove_mark",
    "get /api/v1/report-links": "list_report_links",
    "delete /api/v1/report-links/{audit_id}": "revoke_report_link",
    "post /api/v1/webhooks/stripe": "receive_stripe_event",
    "post /api/v1/webhooks/paddle": "receive_paddle_event",
    "post /api/v1/early-access": "ask_for_early_access",
    "get /healthz": "get_health",
    "get /readyz": "get_readiness",
    "get /r/{token}": "show_report",
    "get /r/{token}/pdf": "show_report_pdf",
    "get /r/{token}/json": "download_report",
    "get /r/{token}/findings.csv": "download_findings",
    "post /auth/magic-link": "ask_for_sign_in_link",
    "get /auth/verify": "sign_in",
    "post /auth/verify": "confirm_sign_in",
    "post /auth/logout": "sign_out",
    "post /oauth/token": "redeem_code",
    "post /oauth/revoke": "revoke_access_token",
    "get /.well-known/oauth-authorization-server": "get_oauth_metadata",
    "get /oauth/authorize": "ask_for_consent",
    "post /oauth/authorize": "decide_on_consent",
    "get /admin": "show_overview",
    "post /admin/audits/{audit_id}/purge": "purge_raw_upload",
    "get /admin/audits/{audit_id}/report": "get_any_report",
    "post /admin/audits/{audit_id}/rerun": "rerun_audit",
    "post /admin/accounts/{account_id}/sign-out": "end_sessions",
    "post /admin/payments/mark-paid": "mark_paid",
    "get /admin/early-access.csv": "list_early_access",
}
READ_ONE: Final = "audit_id If-None-Match?"
ASKED: Final = (
    "response_type client_id redirect_uri scope state? code_challenge code_challenge_method"
)
PARAMETERS: Final = {
    "post /api/v1/ingest": "Idempotency-Key? Content-Encoding?",
    "post /api/v2/ingest": "Idempotency-Key? Content-Encoding?",
    "post /otlp/v1/traces": "Content-Encoding? X-Tag-Attribute?",
    "post /otlp/v1/logs": "Content-Encoding? X-Tag-Attribute?",
    "post /otlp/v1/metrics": "Content-Encoding?",
    "post /api/v1/audits": "Idempotency-Key? x-user-email?",
    "post /api/v1/account-audits": "window_days? x-user-email?",
    "post /api/v1/span-imports": "x-user-email?",
    "get /api/v1/findings": "limit? state? detector? route? model? assignee? format? cursor?"
    " If-None-Match?",
    "get /api/v1/audits": "limit? status? since? cursor? source? If-None-Match?",
    "get /api/v1/audits/{audit_id}": READ_ONE,
    "get /api/v1/audits/{audit_id}/findings": READ_ONE,
    "get /api/v1/audits/{audit_id}/report": READ_ONE,
    "get /api/v1/audits/{audit_id}/status": f"{READ_ONE} x-user-email?",
    "get /api/v1/compare": "before? after? from? to? before_from? before_to? limit? If-None-Match?",
    "get /api/v1/spend": "from? to? group_by? format? version? limit? cursor? If-None-Match?",
    "get /api/v1/plan-usage": "from? to? If-None-Match?",
    "get /api/v1/reconciliation": "from? to? provider? lines? If-None-Match?",
    "get /api/v1/future-calls": "If-None-Match?",
    "delete /api/v1/future-calls": "from? to? x-user-email?",
    "get /api/v1/marks": "from? to? If-None-Match?",
    "delete /api/v1/marks/{mark_id}": "mark_id",
    "get /api/v1/report-links": "limit? cursor? If-None-Match?",
    "delete /api/v1/report-links/{audit_id}": "audit_id x-user-email?",
    "post /api/v1/webhooks/stripe": "Stripe-Signature",
    "post /api/v1/webhooks/paddle": "Paddle-Signature",
    "get /r/{token}": "token finding?",
    "get /r/{token}/pdf": "token",
    "get /r/{token}/json": "token",
    "get /r/{token}/findings.csv": "token",
    "get /auth/verify": "token",
    "get /oauth/authorize": ASKED,
    "post /oauth/authorize": ASKED,
    "get /admin": "audits_page? accounts_page? events_page? early_access_page? acts_page?",
    "post /admin/audits/{audit_id}/purge": "audit_id",
    "post /admin/audits/{audit_id}/rerun": "audit_id",
    "get /admin/audits/{audit_id}/report": "audit_id",
    "post /admin/accounts/{account_id}/sign-out": "account_id",
}
JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
CREDENTIALS: Final = "client_id? client_secret?"
# By operation and media type: a component's name, or the fields of a form.
BODIES: Final = {
    "post /api/v1/ingest": {JSON: "Batch"},
    "post /api/v1/plan-limits": {JSON: "PlanLimits"},
    "post /api/v2/ingest": {JSON: "BatchV2"},
    "post /api/v1/audits": {"multipart/form-data": "file label? map? provider?"},
    "post /otlp/v1/traces": {JSON: ""},
    "post /otlp/v1/logs": {JSON: ""},
    "post /otlp/v1/metrics": {JSON: ""},
    "post /api/v1/marks": {JSON: "NewMark"},
    "post /api/v1/early-access": {JSON: "EarlyAccess"},
    "post /auth/magic-link": {JSON: "MagicLink", FORM: "MagicLink"},
    "post /auth/verify": {JSON: "Verify", FORM: "Verify"},
    "post /oauth/token": {FORM: f"grant_type code redirect_uri code_verifier {CREDENTIALS}"},
    "post /oauth/revoke": {FORM: f"token {CREDENTIALS}"},
    "post /oauth/authorize": {FORM: "csrf_token decision scope?"},
    "post /admin/payments/mark-paid": {JSON: "MarkPaid"},
}


def _words(fields: Any, required: Any) -> set[str]:
    return {name if name in required else f"{name}?" for name in fields}


def _fields(schema: dict[str, Any]) -> set[str]:
    return _words(schema.get("properties", {}), schema.get("required", []))


def test_every_shape_has_exactly_its_fields(both_documents: dict[str, Any]) -> None:
    described = {
        name: _fields(schema)
        for name, schema in both_documents["components"]["schemas"].items()
        if name not in report_schemas()
    }
    assert described == {name: set(fields.split()) for name, fields in FIELDS.items()}


# Told by their names, or by the standard that they come from; what administrators see.
SPEAKING: Final = frozenset(
    [
        "Error",
        "ServerMetadata",
        "Overview",
        "Purged",
        "Rerun",
        "SignedOut",
        "MarkPaid",
        "MarkedPaid",
        "Waiting",
    ]
)


def test_every_field_and_parameter_says_what_it_holds(both_documents: dict[str, Any]) -> None:
    silent = [
        (name, field)
        for name, schema in both_documents["components"]["schemas"].items()
        if name not in report_schemas() and not name.endswith("Line") and name not in SPEAKING
        for field, found in schema.get("properties", {}).items()
        if not found.get("description")
    ]
    silent += [
        (name, one["name"])
        for name, operation in operations(both_documents).items()
        for one in operation["parameters"]
        if not one.get("description") and "/admin" not in name and "/r/" not in name
    ]
    assert silent == []


def test_every_operation_has_its_name(both_documents: dict[str, Any]) -> None:
    described = {name: one["operationId"] for name, one in operations(both_documents).items()}
    assert described == NAMES


def test_every_operation_has_exactly_its_parameters(both_documents: dict[str, Any]) -> None:
    described = {
        name: _words(
            [one["name"] for one in operation["parameters"]],
            [one["name"] for one in operation["parameters"] if one.get("required")],
        )
        for name, operation in operations(both_documents).items()
        if operation["parameters"]
    }
    assert described == {name: set(fields.split()) for name, fields in PARAMETERS.items()}


def test_every_operation_has_exactly_its_bodies(both_documents: dict[str, Any]) -> None:
    described = {
        name: {
            kind: _body(one["schema"]) for kind, one in operation["requestBody"]["content"].items()
        }
        for name, operation in operations(both_documents).items()
        if "requestBody" in operation
    }
    expected = {
        name: {kind: set(fields.split()) for kind, fields in bodies.items()}
        for name, bodies in BODIES.items()
    }
    assert described == expected


def _body(schema: dict[str, Any]) -> set[str]:
    return {schema["$ref"].rpartition("/")[2]} if "$ref" in schema else _fields(schema)
