"""Anthropic's usage and cost reports, and the lines that they become.

Costs are decimal strings in cents: "123.45" is $1.23.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from service.connections.client import EmptyWindowError, MissingRightError
from service.connections.provider import (
    COSTS,
    DAY,
    HOUR,
    TOKENS,
    USAGE,
    Asking,
    CostLine,
    Line,
    Name,
    Page,
    Provider,
    Report,
    Sight,
    UsageLine,
    Window,
    clean,
)

_USAGE_PATH: Final = "/v1/organizations/usage_report/messages"
_COSTS_PATH: Final = "/v1/organizations/cost_report"
_GROUPING: Final = (
    *("api_key_id", "workspace_id", "model"),
    *("service_tier", "context_window", "inference_geo"),
)
_CENTS: Final = Decimal(100)
_NAMES_AT_ONCE: Final = 100
_MOST_NAME_PAGES: Final = 50
_LOOK_BACK: Final = timedelta(days=31)

REPORTS: Final = (
    Report(
        name="costs",
        kind=COSTS,
        path=_COSTS_PATH,
        grouping=("workspace_id", "description"),
        most_buckets=31,
        every=DAY,
    ),
    Report(name="messages", kind=USAGE, path=_USAGE_PATH, grouping=_GROUPING, most_buckets=31),
    Report(
        name="messages_hourly",
        kind=USAGE,
        path=_USAGE_PATH,
        grouping=_GROUPING,
        width=HOUR,
        most_buckets=168,
        days_back=7,
        is_optional=True,
    ),
)
_KINDS: Final[Mapping[str, str]] = {"tokens": TOKENS, "session_usage": "code_execution"}


class Anthropic(Provider):
    name = "anthropic"
    title = "Anthropic"
    base_url = "https://api.anthropic.com"
    key_prefix = "sk-ant-admin"
    key_page = "https://platform.claude.com/settings/admin-keys"
    key_words = "an Admin API key, which an admin of the organization makes"
    # Its documentation asks for at most one request a minute where polling goes on, and allows
    # more in a row to download pages.
    pause_seconds = 60.0
    unbilled_tiers: Sequence[str] = ("priority",)
    empty_statuses = frozenset({400})
    reports: Sequence[Report] = REPORTS

    def headers(self, key: str) -> Mapping[str, str]:
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}

    def parameters(self, window: Window, page: str | None) -> Sequence[tuple[str, str]]:
        report = window.report
        query = [
            ("starting_at", _moment(window.first)),
            ("bucket_width", "1h" if report.width == HOUR else "1d"),
            ("limit", str(report.most_buckets)),
            *(("group_by[]", name) for name in report.grouping),
        ]
        if window.last is not None:
            query.append(("ending_at", _moment(window.last)))
        return query if page is None else [*query, ("page", page)]

    def read_page(self, report: Report, body: Any) -> Page:
        read = read_cost if report.kind == COSTS else _read_usage
        buckets: dict[datetime, list[Line]] = {}
        for bucket in body["data"]:
            start = datetime.fromisoformat(bucket["starting_at"]).astimezone(UTC)
            buckets[start] = [read(start, row) for row in bucket["results"]]
        return Page(buckets, body["next_page"] if body["has_more"] else None)

    def look(self, client: Asking, now: datetime) -> Sight:
        organization = clean(client.get("/v1/organizations/me").get("name"))
        first = now.replace(hour=0, minute=0, second=0, microsecond=0) - _LOOK_BACK
        query = [("starting_at", _moment(first)), ("limit", "31")]
        try:
            body = client.get(_COSTS_PATH, query)
            days = [
                datetime.fromisoformat(each["starting_at"]).astimezone(UTC)
                for each in body["data"]
                if each["results"]
            ]
        except EmptyWindowError:
            days = []
        workspaces, missing = 0, []
        try:
            workspaces = sum(1 for _each in _list(client, "/v1/organizations/workspaces"))
        except MissingRightError:
            missing.append("projects")
        return Sight(organization, workspaces, min(days, default=None), missing)

    def list_names(self, client: Asking) -> Iterator[Name]:
        for workspace in _list(client, "/v1/organizations/workspaces"):
            yield Name("project", clean(workspace["id"]), clean(workspace.get("name")))
        for key in _list(client, "/v1/organizations/api_keys"):
            scope = key.get("scope") or key  # which older responses have instead
            parent = clean(scope.get("workspace_id"))
            yield Name("key", clean(key["id"]), clean(key.get("name")), parent)


def _list(client: Asking, path: str) -> Iterator[Any]:
    after = ""
    for _page in range(_MOST_NAME_PAGES):
        more = [("after_id", after)] if after else []
        body = client.get(path, [("limit", str(_NAMES_AT_ONCE)), *more])
        yield from body["data"]
        if not body.get("has_more") or body["last_id"] == after:
            return
        after = body["last_id"]


def _read_usage(bucket: datetime, row: Mapping[str, Any]) -> UsageLine:
    written = row.get("cache_creation") or {}
    short = written.get("ephemeral_5m_input_tokens") or 0
    long = written.get("ephemeral_1h_input_tokens") or 0
    cached = row.get("cache_read_input_tokens") or 0
    searches = (row.get("server_tool_use") or {}).get("web_search_requests") or 0
    tier = clean(row.get("service_tier")).lower()
    return UsageLine(
        bucket=bucket,
        project_id=clean(row.get("workspace_id")),
        key_id=clean(row.get("api_key_id")),
        model=clean(row.get("model")),
        tier="" if tier == "standard" else tier,
        context=clean(row.get("context_window")),
        region=_region(row.get("inference_geo")),
        prompt_tokens=row["uncached_input_tokens"] + short + long + cached,
        completion_tokens=row["output_tokens"],
        cached_tokens=cached,
        cache_write_tokens=short + long,
        cache_write_1h_tokens=long,
        units={"web_searches": searches} if searches else {},
    )


def read_cost(bucket: datetime, row: Mapping[str, Any]) -> CostLine:
    described = clean(row.get("description"))
    cost_type = clean(row.get("cost_type"))
    kind = _KINDS.get(cost_type, cost_type or "other_fee")
    return CostLine(
        bucket=bucket,
        project_id=clean(row.get("workspace_id")),
        line_item=described,
        kind=kind,
        model=clean(row.get("model")) if kind == TOKENS else "",
        amount=Decimal(row["amount"]) / _CENTS,
        currency=clean(row.get("currency")).upper() or "USD",
    )


def _region(geo: Any) -> str:
    text = clean(geo).lower()
    return "" if text in ("global", "not_available", "unknown") else text


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
