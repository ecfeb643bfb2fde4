"""Example responses of /openapi.json, by schema. All data is fictional."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from service.models.access.oauth import TOKEN_SECONDS
from service.reports.sample import get_sample_report

_AUDIT_ID: Final = "6f1d8a52c0e94b7f9c3d2e1a0b4c5d6e"
_SUMMARY: Final = {
    "id": _AUDIT_ID,
    "status": "done",
    "created_at": "2026-03-02T09:15:03.412000Z",
    "source": "upload",
    "records": 4971,
    "observed_days": 14,
    "total_spend_usd": 3800.61647052,
    "projected_spend_usd": 8144.178151114,
    "savings_pct": 15.495381642,
    "equiv_spend": False,
    "findings": 6,
    "projection": "good",
    "span_days": 13.999,
    "window_start": "2026-02-15T00:00:14Z",
    "monthly_factor": 2.143010215,
    "verified_savings_usd": 61.857139286,
    "estimated_savings_usd": 1200.114285714,
    "estimated_savings_low_usd": 698.485714286,
    "estimated_savings_high_usd": 1503.6,
    "conditional_savings_usd": 770.677800536,
    "conditional_savings_low_usd": 0,
    "conditional_savings_high_usd": 902.351428571,
}
_FINDING: Final = {
    "id": "d1-001",
    "detector": "d1_model_overkill",
    "route": "invoice-extraction",
    "severity": "high",
    "confidence": "CONDITIONAL",
    "monthly_cost_impact_usd": 751.796142857,
    "fix": "Test the cheaper model on this route against your own quality evaluation.",
    "impact_low": 0,
    "impact_high": 902.351428571,
    "first_seen": "2026-02-15T00:00:14Z",
    "last_seen": "2026-02-28T23:55:57Z",
}
_ACCOUNT_FINDING: Final = {
    "id": "0c7c1f2f5b5e4d0f8d3b9a1e2f4c6d7a",
    "state": "open",
    "detector": "d2_missed_caching",
    "kind": "uncached_prefix",
    "route": "support-bot",
    "provider": "openai",
    "model": "gpt-4o",
    "severity": "high",
    "confidence": "ESTIMATED",
    "monthly_cost_impact_usd": 346.35,
    "observed_cost_impact_usd": 323.26,
    "is_monthly": True,
    "calls": 8120,
    "fix": "Put the part of the prompt that repeats first, and let it be cached.",
    "first_seen": "2026-02-15T00:00:14Z",
    "last_seen": "2026-02-28T23:55:57Z",
    "audit_id": _AUDIT_ID,
    "finding_id": "d2-001",
    "assignee": "dana@example.com",
    "note": "Planned for the next release.",
}
_MARK: Final = {
    "id": "5d1c6b0e8f2a4b7c9e3d1f6a8b0c2d4e",
    "day": "2026-03-14",
    "words": "Deploy 1.4",
    "created_at": "2026-03-14T09:30:00Z",
}
_REPORT_LINK: Final = {
    "audit_id": _AUDIT_ID,
    "state": "active",
    "issued_at": "2026-03-02T09:15:09.027000Z",
    "expires_at": "2026-04-01T09:15:09.027000Z",
    "opens": 3,
    "last_opened_at": "2026-03-04T16:40:21.550000Z",
}
_SUMS: Final = {
    "calls": 4971,
    "unpriced_calls": 0,
    "prompt_tokens": 61204118,
    "completion_tokens": 1950233,
    "cached_tokens": 20480000,
    "cache_write_tokens": 0,
    "cost_usd": 181.350412,
    "list_usd": 181.350412,
}
_SPEND: Final = {
    "from": "2026-03-01",
    "to": "2026-03-30",
    "group_by": ["day", "model"],
    "spend": [{"day": "2026-03-01", "model": "gpt-5.5", **_SUMS}],
    "totals": {**_SUMS, "calls": 149130, "cost_usd": 5440.51236, "list_usd": 5440.51236},
    "plan_usage": {
        "calls": 812,
        "unpriced_calls": 0,
        "prompt_tokens": 96400213,
        "completion_tokens": 412077,
        "cached_tokens": 91002140,
        "cache_write_tokens": 3310220,
        "value_usd": 91.870244,
    },
    "after_today": {"calls": 3, "cost_usd": 0.0456},
    "next_cursor": "WyIyMDI2LTAzLTAxIiwiMjAyNi0wMy0zMCJd",
}
_CHANGE: Final = {
    "before_usd": 4810.22,
    "after_usd": 5440.51,
    "change_usd": 630.29,
    "change_pct": 13.1,
}
_COMPARISON: Final = {
    "kind": "periods",
    "before": {
        "from": "2026-01-30",
        "to": "2026-02-28",
        "days": 30,
        "calls": 140211,
        "spend_usd": 4810.22,
    },
    "after": {
        "from": "2026-03-01",
        "to": "2026-03-30",
        "days": 30,
        "calls": 149130,
        "spend_usd": 5440.51,
    },
    "is_per_day": False,
    "total": _CHANGE,
    "routes": [{"route": "support-bot", **_CHANGE}],
    "models": [{"provider": "openai", "model": "gpt-5.5", **_CHANGE}],
    "findings": [
        {
            "status": "better",
            "detector": "d2_missed_caching",
            "kind": "hashed",
            "route": "support-bot",
            "provider": "openai",
            "model": "gpt-5.5",
            "before_usd": 323.26,
            "after_usd": 101.7,
        }
    ],
    "notes": [],
}
_ISSUER: Final = "https://tallystick.example"
_METADATA: Final = {
    "issuer": _ISSUER,
    "authorization_endpoint": f"{_ISSUER}/oauth/authorize",
    "token_endpoint": f"{_ISSUER}/oauth/token",
    "revocation_endpoint": f"{_ISSUER}/oauth/revoke",
    "scopes_supported": ["read:audits", "read:findings"],
    "response_types_supported": ["code"],
    "response_modes_supported": ["query"],
    "grant_types_supported": ["authorization_code"],
    "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
    "revocation_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
    "code_challenge_methods_supported": ["S256"],
    "authorization_response_iss_parameter_supported": True,
    "service_documentation": f"{_ISSUER}/docs",
}
_OVERVIEW: Final = {
    **{name: [] for name in ("accounts", "payment_events", "early_access", "acts", "queue")},
    **{
        "audits": [],
        "mails": [],
        "wake_ups": {"ingest": 0},
        "failed_mails": 0,
        "next_pages": {},
        "stored_data": [],
    },
}
_FUTURE: Final = {
    "calls": 3,
    "cost_usd": 0.0456,
    "is_deleting": False,
    "lines": [
        {
            "day": "2034-01-02",
            "route": "support-bot",
            "provider": "openai",
            "model": "gpt-4o",
            "calls": 3,
            "cost_usd": 0.0456,
        }
    ],
}
_TOKEN: Final = {
    "access_token": "at_…",
    "token_type": "Bearer",
    "expires_in": TOKEN_SECONDS,
    "scope": "read:audits read:findings",
}
_UPLOADED: Final = {
    "audit_id": _AUDIT_ID,
    "replayed": False,
    "status_url": f"{_ISSUER}/api/v1/audits/{_AUDIT_ID}/status",
}
_INCLUDED: Final = {
    "calls": 1204,
    "unpriced_calls": 0,
    "prompt_tokens": 161204118,
    "completion_tokens": 1950233,
    "cached_tokens": 152480000,
    "cache_write_tokens": 8200000,
    "value_usd": 181.35,
}
_PLANS: Final = {
    "from": "2026-03-01",
    "to": "2026-03-31",
    "totals": _INCLUDED,
    "plans": [
        {"provider": "claude-code", "price_usd": 100.0, "value_usd": 181.35, "ratio": 1.8135}
    ],
    "tools": [{"name": "claude-code", **_INCLUDED}],
    "projects": [{"name": "boats", **_INCLUDED}],
    "environments": [{"name": "laptop", **_INCLUDED}],
    "models": [{"name": "claude-sonnet-4-6", **_INCLUDED}],
    "weeks": [{"monday": "2026-03-02", **_INCLUDED}],
    "windows": [
        {
            "provider": "claude-code",
            "environment": "laptop",
            "start": "2026-03-02T09:00:00Z",
            "end": "2026-03-02T14:00:00Z",
            "calls": 1204,
            "tokens": 163154351,
            "value_usd": 181.35,
        }
    ],
    "window_count": 1,
    "limits": [
        {
            "provider": "claude-code",
            "environment": "laptop",
            "window_minutes": 10080,
            "used_percent": 38.0,
            "resets_at": "2026-03-09T00:00:00Z",
            "windows": 4,
        }
    ],
}
_RECONCILED: Final = {
    "provider": "openai",
    "month": "2026-02",
    "billed_usd": 12410.22,
    "reported_usd": 12396.1,
    "counted_usd": 11903.1,
    "explained_usd": 11903.1,
    "coverage": 0.965,
    "rate": 1.0,
    "unexplained_usd": 14.12,
    "parts": [
        {"kind": "not_sent", "usd": 431.0},
        {"kind": "file_search", "usd": 62.0},
        {"kind": "unexplained", "usd": 14.12},
    ],
    "not_sent": [{"project_id": "proj_1", "project": "search-eval", "usd": 431.0}],
    "other_currencies": [],
    "summary": "OpenAI billed $12,410.22. Your calls explain $11,903.10 (95.9%).",
    "locked_at": "2026-03-11T00:10:00Z",
    "locked_billed_usd": 12410.22,
}
_AGENT: Final = {
    "agent": "claude-code",
    "month": "2026-02",
    "own_tokens": 1240000,
    "held_tokens": 1180000,
    "covered_tokens": 1180000,
    "coverage": 0.9516,
    "estimated_usd": 3.12,
    "summary": "Claude Code counted 1,240,000 tokens; your calls have 1,180,000 of them (95.2%).",
}
_EXAMPLES: Final[Mapping[str, Any]] = {
    "Accepted": {"audit_id": _AUDIT_ID, "records": 1, "replayed": False},
    "Replayed": {"audit_id": _AUDIT_ID, "replayed": True},
    "EventReceived": {"received": True},
    "Uploaded": _UPLOADED,
    "AccountAudit": {name: _UPLOADED[name] for name in ("audit_id", "status_url")},
    "SpanImport": {"calls": 512},
    "AuditStatus": {"audit_id": _AUDIT_ID, "status": "queued", "queue_position": 2},
    "AuditList": {"audits": [_SUMMARY], "next_cursor": "MTc3MjQ0MjkwMzQxMjAwMC42ZjFk"},
    "AuditSummary": _SUMMARY,
    "FindingList": {"audit_id": _AUDIT_ID, "findings": [_FINDING]},
    "Spend": _SPEND,
    "Comparison": _COMPARISON,
    "ReconciliationList": {"reconciliations": [_RECONCILED], "agents": [_AGENT]},
    "PlanReport": _PLANS,
    "StoredLimits": {"limits": 2},
    "FutureCalls": _FUTURE,
    "DeletedFutureCalls": {"calls": 3},
    "AccountFindingList": {"findings": [_ACCOUNT_FINDING]},
    "AccountFinding": _ACCOUNT_FINDING,
    "MarkList": {"marks": [_MARK]},
    "Mark": _MARK,
    "RemovedMark": {"id": _MARK["id"]},
    "ReportLinkList": {"report_links": [_REPORT_LINK]},
    "ReportLink": {
        **_REPORT_LINK,
        "state": "revoked",
        "revoked_at": "2026-03-05T08:00:00.113000Z",
    },
    "Health": {"status": "ok", "components": {"database": "ok", "redis": "ok", "storage": "ok"}},
    "Message": {"message": "A human-readable sentence."},
    "Token": _TOKEN,
    "Revoked": {},
    "ServerMetadata": _METADATA,
    "Overview": _OVERVIEW,
    "Purged": {
        "audit_id": _AUDIT_ID,
        "raw_purged_at": "2026-03-09T09:15:03Z",
        "is_repeat": False,
    },
    "SignedOut": {"account_id": "0d3c5b7a9f1e4d2c8b6a0f9e8d7c6b5a", "sessions": 2},
    "Rerun": {"audit_id": _AUDIT_ID, "status": "queued"},
    "MarkedPaid": {
        "payment_id": "0d3b1c9e8f7a4d2bb6c5a49382716f50",
        "account_id": None,
        "is_repeat": False,
    },
}


def find_example(schema: Any, status: int) -> Any:
    """Return the example of a schema, given as a class or a reference; None if it has none."""
    if isinstance(schema, Mapping):
        if "ReportDocument" not in schema.get("$ref", ""):
            return None
        return _shorten(msgspec.json.decode(get_sample_report()))  # each list to its first entry
    name = getattr(schema, "__name__", "").removesuffix("Schema")
    example = _EXAMPLES.get(name)
    if name == "Uploaded" and status == 200:
        return {**_UPLOADED, "replayed": True}
    return {**_EXAMPLES[name], "status": "degraded"} if status == 503 else example


def _shorten(node: Any) -> Any:
    if isinstance(node, list):
        return [_shorten(item) for item in node[:1]]
    return {key: _shorten(value) for key, value in node.items()} if isinstance(node, dict) else node
