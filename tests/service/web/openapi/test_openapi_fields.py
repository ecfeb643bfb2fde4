"""Every field and parameter in both OpenAPI documents, no more and no less.

A `?` marks optional fields. `described.watch` checks every response of every test against the
document. The report's own schemas are generated from its types.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

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
    "ReconciliationList": "reconciliations agents",
    "AgentMonth": (
        "agent month own_tokens held_tokens covered_tokens coverage? estimated_usd summary lines?"
    ),
    "AgentLine": "key own_tokens held_tokens covered_tokens coverage?",
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
    "RemovedMark": "id",
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


class Operation(NamedTuple):
    """What generated code calls it: a name that stays; and what it takes and answers."""

    name: str
    statuses: str
    parameters: str = ""
    bodies: Mapping[str, str] = {}


ERRORS = "500 503"
LIMITED = f"429 {ERRORS}"
ADMIN, ACT = f"200 403 404 422 {ERRORS}", f"200 403 404 413 422 {ERRORS}"
READ, READ_ONE = f"200 304 401 403 414 422 {LIMITED}", f"200 304 401 403 404 422 {LIMITED}"
HOOK = f"200 400 403 404 413 422 {ERRORS}"
LINK = f"200 404 422 {LIMITED}"
SIGN_IN = f"200 400 403 413 415 422 {LIMITED}"
OAUTH = f"200 400 401 413 {LIMITED}"
ONE = "audit_id If-None-Match?"
ASKED = "response_type client_id redirect_uri scope state? code_challenge code_challenge_method"
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
CREDENTIALS = "client_id? client_secret?"
# By operation and media type, a body is a component, or the fields of a form.
# Every operation, with all that it takes and answers: no more and no less is described.
OPERATIONS: Final = {
    "post /api/v1/ingest": Operation(
        "ingest_batch",
        f"200 201 400 401 402 403 413 415 422 {LIMITED}",
        "Idempotency-Key? Content-Encoding?",
        {JSON: "Batch"},
    ),
    "post /api/v1/plan-limits": Operation(
        "send_plan_limits", SIGN_IN.replace("403", "401 403"), "", {JSON: "PlanLimits"}
    ),
    "post /api/v2/ingest": Operation(
        "ingest_batch_v2",
        f"200 201 400 401 402 403 413 415 422 {LIMITED}",
        "Idempotency-Key? Content-Encoding?",
        {JSON: "BatchV2"},
    ),
    "post /otlp/v1/traces": Operation(
        "export_traces",
        f"200 400 401 402 403 413 415 {LIMITED}",
        "Content-Encoding? X-Tag-Attribute?",
        {JSON: ""},
    ),
    "post /otlp/v1/logs": Operation(
        "export_logs",
        f"200 400 401 402 403 413 415 {LIMITED}",
        "Content-Encoding? X-Tag-Attribute?",
        {JSON: ""},
    ),
    "post /otlp/v1/metrics": Operation(
        "export_metrics", f"200 400 401 402 403 413 415 {LIMITED}", "Content-Encoding?", {JSON: ""}
    ),
    "post /api/v1/audits": Operation(
        "upload_log",
        f"200 201 400 401 402 403 413 415 422 {LIMITED}",
        "Idempotency-Key? x-user-email?",
        {"multipart/form-data": "file label? map? provider?"},
    ),
    "post /api/v1/account-audits": Operation(
        "audit_account", f"202 401 403 414 422 {LIMITED}", "window_days? x-user-email?"
    ),
    "post /api/v1/span-imports": Operation(
        "import_spans", f"202 401 403 {LIMITED}", "x-user-email?"
    ),
    "get /api/v1/findings": Operation(
        "list_account_findings",
        READ,
        "limit? state? detector? route? model? assignee? format? cursor? If-None-Match?",
    ),
    "get /api/v1/audits": Operation(
        "list_audits", READ, "limit? status? since? cursor? source? If-None-Match?"
    ),
    "get /api/v1/audits/{audit_id}": Operation("get_audit", READ_ONE, ONE),
    "get /api/v1/audits/{audit_id}/findings": Operation("list_findings", READ_ONE, ONE),
    "get /api/v1/audits/{audit_id}/report": Operation("get_report", READ_ONE, ONE),
    "get /api/v1/audits/{audit_id}/status": Operation(
        "get_status", f"200 304 401 404 422 {LIMITED}", f"{ONE} x-user-email?"
    ),
    "get /api/v1/spend": Operation(
        "get_spend", READ, "from? to? group_by? format? version? limit? cursor? If-None-Match?"
    ),
    "get /api/v1/compare": Operation(
        "compare",
        f"404 {READ}",
        "before? after? from? to? before_from? before_to? limit? If-None-Match?",
    ),
    "get /api/v1/plan-usage": Operation("get_plan_usage", READ, "from? to? If-None-Match?"),
    "get /api/v1/reconciliation": Operation(
        "reconcile", READ, "from? to? provider? lines? If-None-Match?"
    ),
    "get /api/v1/future-calls": Operation(
        "list_future_calls", f"200 304 401 403 422 {LIMITED}", "If-None-Match?"
    ),
    "delete /api/v1/future-calls": Operation(
        "delete_future_calls", f"202 401 403 414 422 {LIMITED}", "from? to? x-user-email?"
    ),
    "get /api/v1/marks": Operation("list_marks", READ, "from? to? If-None-Match?"),
    "post /api/v1/marks": Operation(
        "add_mark", f"201 400 401 403 413 415 422 {LIMITED}", "", {JSON: "NewMark"}
    ),
    "delete /api/v1/marks/{mark_id}": Operation(
        "remove_mark", f"200 401 403 404 422 {LIMITED}", "mark_id"
    ),
    "get /api/v1/report-links": Operation(
        "list_report_links", READ, "limit? cursor? If-None-Match?"
    ),
    "delete /api/v1/report-links/{audit_id}": Operation(
        "revoke_report_link", f"200 401 403 404 422 {LIMITED}", "audit_id x-user-email?"
    ),
    "post /api/v1/webhooks/stripe": Operation("receive_stripe_event", HOOK, "Stripe-Signature"),
    "post /api/v1/webhooks/paddle": Operation("receive_paddle_event", HOOK, "Paddle-Signature"),
    "post /api/v1/early-access": Operation(
        "ask_for_early_access", SIGN_IN, "", {JSON: "EarlyAccess"}
    ),
    "get /healthz": Operation("get_health", "200 500"),
    "get /readyz": Operation("get_readiness", f"200 {ERRORS}"),
    "get /r/{token}": Operation("show_report", f"414 {LINK}", "token finding?"),
    "get /r/{token}/pdf": Operation("show_report_pdf", LINK, "token"),
    "get /r/{token}/json": Operation("download_report", LINK, "token"),
    "get /r/{token}/findings.csv": Operation("download_findings", LINK, "token"),
    "post /auth/magic-link": Operation(
        "ask_for_sign_in_link", SIGN_IN, "", {JSON: "MagicLink", FORM: "MagicLink"}
    ),
    "get /auth/verify": Operation("sign_in", f"200 414 422 {ERRORS}", "token"),
    "post /auth/verify": Operation(
        "confirm_sign_in", f"200 400 403 413 415 422 {ERRORS}", "", {JSON: "Verify", FORM: "Verify"}
    ),
    "post /auth/logout": Operation("sign_out", f"200 400 403 413 {ERRORS}"),
    "post /oauth/token": Operation(
        "redeem_code",
        OAUTH,
        "",
        {FORM: f"grant_type code redirect_uri code_verifier {CREDENTIALS}"},
    ),
    "post /oauth/revoke": Operation(
        "revoke_access_token", OAUTH, "", {FORM: f"token {CREDENTIALS}"}
    ),
    "get /.well-known/oauth-authorization-server": Operation("get_oauth_metadata", "200 500"),
    "get /oauth/authorize": Operation("ask_for_consent", f"200 303 400 414 {LIMITED}", ASKED),
    "post /oauth/authorize": Operation(
        "decide_on_consent",
        f"303 400 403 413 414 422 {LIMITED}",
        ASKED,
        {FORM: "csrf_token decision scope?"},
    ),
    "get /admin": Operation(
        "show_overview",
        f"414 {ADMIN}",
        "audits_page? accounts_page? events_page? early_access_page? acts_page?",
    ),
    "post /admin/audits/{audit_id}/purge": Operation("purge_raw_upload", ACT, "audit_id"),
    "get /admin/audits/{audit_id}/report": Operation("get_any_report", ADMIN, "audit_id"),
    "post /admin/audits/{audit_id}/rerun": Operation("rerun_audit", ACT, "audit_id"),
    "post /admin/accounts/{account_id}/sign-out": Operation("end_sessions", ACT, "account_id"),
    "post /admin/payments/mark-paid": Operation("mark_paid", ACT, "", {JSON: "MarkPaid"}),
    "get /admin/early-access.csv": Operation("list_early_access", ADMIN),
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


def test_every_operation_has_exactly_its_name_statuses_parameters_and_bodies(
    both_documents: dict[str, Any],
) -> None:
    described = {name: _describe(one) for name, one in operations(both_documents).items()}
    assert described == {
        name: (
            one.name,
            set(one.statuses.split()),
            set(one.parameters.split()),
            {kind: set(fields.split()) for kind, fields in one.bodies.items()},
        )
        for name, one in OPERATIONS.items()
    }
    assert all(one["summary"] for one in operations(both_documents).values())


def _describe(operation: dict[str, Any]) -> tuple[Any, ...]:
    parameters = operation["parameters"]
    required = [one["name"] for one in parameters if one.get("required")]
    bodies = operation.get("requestBody", {"content": {}})["content"]
    return (
        operation["operationId"],
        set(operation["responses"]),
        _words([one["name"] for one in parameters], required),
        {kind: _body(one["schema"]) for kind, one in bodies.items()},
    )


def _body(schema: dict[str, Any]) -> set[str]:
    return {schema["$ref"].rpartition("/")[2]} if "$ref" in schema else _fields(schema)
