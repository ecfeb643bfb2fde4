"""Anthropic's usage and cost reports, and the lines that they become.

Costs are decimal strings in cents: "123.45" is $1.23.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from service.connections.client import EmptyWindowError, MissingRightError
from service.connections.provider import (
    ACTIVITY,
    COSTS,
    DAY,
    HOUR,
    OTHER_FEE,
    TOKENS,
    USAGE,
    ActivityLine,
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
_WORKSPACES: Final = "/v1/organizations/workspaces"
_CENTS: Final = Decimal(100)
_NAMES_AT_ONCE: Final = 100
_MOST_NAME_PAGES: Final = 50
_LOOK_BACK: Final = timedelta(days=31)

REPORTS: Final = (
    # It has list prices, and the products that a cost is of.
    Report(
        name="analytics_costs",
        kind=COSTS,
        path="/v1/organizations/analytics/cost",
        # At most five beside the type.
        grouping=(
            *("workspace_id", "model", "product", "service_tier", "context_window"),
            "cost_type",
        ),
        most_buckets=31,
        every=DAY,
        span=31 * DAY,
        by_rows=True,
        instead_of="costs",
        is_optional=True,
        headers={"anthropic-beta": "analytics-usage-cost-2026-08-24"},
    ),
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
    Report(
        name="claude_code",
        kind=ACTIVITY,
        path="/v1/organizations/usage_report/claude_code",
        grouping=(),
        most_buckets=31,
        every=DAY,
        span=DAY,
        by_rows=True,
        is_optional=True,
    ),
)
_ROWS_AT_ONCE: Final = 1_000
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
        if report.kind == ACTIVITY:  # of one day
            query = [("starting_at", f"{window.first:%Y-%m-%d}")]
        else:
            query = [("starting_at", _moment(window.first))]
            query += [("ending_at", _moment(window.last))] if window.last is not None else []
            query += [("group_by[]", name) for name in report.grouping]
            if report.by_rows:
                query += [("time_bucket_width", "1d"), ("order_by", "time")]
            else:
                query.append(("bucket_width", "1h" if report.width == HOUR else "1d"))
        query.append(("limit", str(_ROWS_AT_ONCE if report.by_rows else report.most_buckets)))
        return query if page is None else [*query, ("page", page)]

    def read_page(self, report: Report, body: Any) -> Page:
        read = read_cost if report.kind == COSTS else _read_usage
        buckets: dict[datetime, list[Line]] = defaultdict(list)
        for each in body["data"]:  # a row of a bucket, or all of its rows
            text = each["date" if report.kind == ACTIVITY else "starting_at"]
            start = datetime.fromisoformat(text).astimezone(UTC)
            if report.kind == ACTIVITY:
                buckets[start] += _read_activity(start, each)
            elif report.by_rows:
                buckets[start].append(_read_analytics(start, each))
            else:
                buckets[start] = [read(start, row) for row in each["results"]]
        return Page(buckets, body["next_page"] if body["has_more"] else None)

    def look(self, client: Asking, now: datetime) -> Sight:
        organization = client.get("/v1/organizations/me")
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
        workspaces, missing = list[str](), []
        try:
            workspaces += (clean(each["id"]) for each in _list(client, _WORKSPACES))
        except MissingRightError:
            missing.append("projects")
        identity = [clean(organization.get("id")), *workspaces]
        first_cost, name = min(days, default=None), clean(organization.get("name"))
        return Sight(name, len(workspaces), first_cost, missing, identity)

    def list_names(self, client: Asking) -> Iterator[Name]:
        for workspace in _list(client, _WORKSPACES):
            yield Name("project", clean(workspace["id"]), clean(workspace.get("name")))
        for key in _list(client, "/v1/organizations/api_keys"):
            scope = key.get("scope") or key  # which older responses have instead
            parent = clean(scope.get("workspace_id"))
            is_active = key.get("status", "active") == "active"
            yield Name("key", clean(key["id"]), clean(key.get("name")), parent, is_active)


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
        region=read_region(row.get("inference_geo")),
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
    kind = _KINDS.get(cost_type, cost_type or OTHER_FEE)
    return CostLine(
        bucket=bucket,
        project_id=clean(row.get("workspace_id")),
        line_item=described,
        kind=kind,
        model=clean(row.get("model")) if kind == TOKENS else "",
        amount=Decimal(row["amount"]) / _CENTS,
        currency=clean(row.get("currency")).upper() or "USD",
    )


def _read_analytics(bucket: datetime, row: Mapping[str, Any]) -> CostLine:
    group, cost = row["group"], row["cost"]
    cost_type = clean(group.get("cost_type"))
    kind = _KINDS.get(cost_type, cost_type or OTHER_FEE)
    model = clean(group.get("model"))
    labels = [clean(group.get(name)) for name in ("product", "service_tier", "context_window")]
    if kind != TOKENS:  # whose lines have no model: their labels keep them apart
        labels.append(model)
    return CostLine(
        bucket=bucket,
        project_id=clean(group.get("workspace_id")),
        line_item=", ".join(filter(None, [*labels, cost_type])),
        kind=kind,
        model=model if kind == TOKENS else "",
        amount=Decimal(cost["amount"]) / _CENTS,
        list_amount=Decimal(cost["list_amount"]) / _CENTS,
        currency=clean(cost.get("currency")).upper() or "USD",
    )


def _read_activity(day: datetime, row: Mapping[str, Any]) -> Iterator[ActivityLine]:
    """Yield what a person did, and then its tokens by model."""
    actor, core = row["actor"], row.get("core_metrics") or {}
    lines, actions = core.get("lines_of_code") or {}, (row.get("tool_actions") or {}).values()
    labels: dict[str, Any] = {
        "bucket": day,
        "person": clean(actor.get("email_address") or actor.get("api_key_name")),
        "plan": clean(row.get("customer_type")),
        "terminal": clean(row.get("terminal_type")),
    }
    yield ActivityLine(
        **labels,
        sessions=core.get("num_sessions") or 0,
        lines_added=lines.get("added") or 0,
        lines_removed=lines.get("removed") or 0,
        commits=core.get("commits_by_claude_code") or 0,
        pull_requests=core.get("pull_requests_by_claude_code") or 0,
        accepted=sum(each.get("accepted") or 0 for each in actions),
        rejected=sum(each.get("rejected") or 0 for each in actions),
    )
    for each in row.get("model_breakdown") or ():
        tokens, cost = each["tokens"], each.get("estimated_cost") or {}
        cached, written = tokens.get("cache_read") or 0, tokens.get("cache_creation") or 0
        is_usd = clean(cost.get("currency")).upper() in ("USD", "")
        yield ActivityLine(
            **labels,
            model=clean(each["model"]),
            prompt_tokens=(tokens.get("input") or 0) + cached + written,
            completion_tokens=tokens.get("output") or 0,
            cached_tokens=cached,
            cache_write_tokens=written,
            estimated_usd=Decimal(cost.get("amount") or 0) / _CENTS if is_usd else Decimal(0),
        )


def read_region(geo: Any) -> str:
    text = clean(geo).lower()
    return "" if text in ("global", "not_available", "unknown") else text


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
