"""A stub that plays Anthropic's Admin API: usage, costs, workspaces and keys, as documented."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from service.connections.stub import (
    Answer,
    Headers,
    Paging,
    Query,
    Result,
    StalePageError,
    Stub,
    cut,
    group_rows,
)

KEY: Final = "sk-ant-admin01-stub"
_WIDTHS: Final = {"1d": timedelta(days=1), "1h": timedelta(hours=1), "1m": timedelta(minutes=1)}
_LIMITS: Final = {"1d": (7, 31), "1h": (24, 168), "1m": (60, 1440)}
_USAGE_KEYS: Final = (
    *("api_key_id", "workspace_id", "model"),
    *("service_tier", "context_window", "inference_geo"),
)
_DESCRIBED: Final = (
    *("cost_type", "model", "context_window", "service_tier", "token_type", "inference_geo"),
)


@dataclass
class World:
    """What the organization used and paid: rows with a `time`, dimensions and counts.

    A cost's `cents` is a number of cents. Costs of the priority tier don't belong here: the real
    report leaves them out.
    """

    usage: list[dict[str, Any]] = field(default_factory=list)
    costs: list[dict[str, Any]] = field(default_factory=list)
    has_analytics: bool = False  # whether the key may read Organization Analytics
    claude_code: list[dict[str, Any]] = field(default_factory=list)  # rows as they are documented
    organization: str = "Acme"
    workspaces: dict[str, str] = field(default_factory=dict)
    keys: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    key: str = KEY
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    paging: Paging = field(default_factory=Paging)
    empty_is_400: bool = False
    forbidden: set[str] = field(default_factory=set)


def make_stub(world: World) -> Stub:
    def answer(path: str, query: Query, headers: Headers) -> Answer:
        if headers.get("x-api-key") != world.key:
            return _error(401, "authentication_error")
        if headers.get("anthropic-version") != "2023-06-01":
            return _error(400, "invalid_request_error")
        if path in world.forbidden:
            return _error(403, "permission_error")
        if path == "/v1/organizations/me":
            return Answer({"id": "org-1", "type": "organization", "name": world.organization})
        if path == "/v1/organizations/workspaces":
            return _list(query, [_workspace(*each) for each in world.workspaces.items()])
        if path == "/v1/organizations/api_keys":
            return _list(query, [_key(i, *each) for i, each in world.keys.items()])
        width = query.get("bucket_width", ["1d"])[0]
        if path == "/v1/organizations/usage_report/messages" and width in _WIDTHS:
            return _report(world, query, world.usage, _usage_result, _LIMITS[width])
        if path == "/v1/organizations/cost_report" and width == "1d":
            return _report(world, query, world.costs, _cost_result, _LIMITS["1d"])
        if path == "/v1/organizations/analytics/cost":
            return _analytics(world, query, headers)
        if path == "/v1/organizations/usage_report/claude_code":
            return _claude_code(world, query)
        return _error(404, "not_found_error")

    return Stub(answer)


_MOST_DAYS: Final = timedelta(days=31)
_MOST_GROUPS: Final = 5


def _analytics(world: World, query: Query, headers: Headers) -> Answer:
    """Return costs by row: a page has some of them, wherever its day ends."""
    if not world.has_analytics:
        return _error(403, "permission_error")
    names = query.get("group_by[]", [])
    try:
        first, last = (
            datetime.fromisoformat(query[name][0]) for name in ("starting_at", "ending_at")
        )
        limit = int(query.get("limit", ["20"])[0])
    except (KeyError, ValueError):
        return _error(400, "invalid_request_error")
    is_right = last - first <= _MOST_DAYS and 1 <= limit <= 1000
    is_beta = "analytics-usage-cost" in headers.get("anthropic-beta", "")
    if not is_right or not is_beta or len(set(names) - {"cost_type"}) > _MOST_GROUPS:
        return _error(400, "invalid_request_error")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in world.costs:
        if first <= row["time"] < last:
            day = row["time"].replace(hour=0, minute=0, second=0, microsecond=0)
            groups[day, *(row.get(name) for name in names)].append(row)
    found = [
        _analytics_row(key[0], dict(zip(names, key[1:], strict=True)), rows)
        for key, rows in sorted(groups.items(), key=str)
    ]
    try:
        shown, token = cut(found, query, limit, world.paging)
    except StalePageError:
        return _error(400, "invalid_request_error")
    return Answer({"data": shown, "has_more": token is not None, "next_page": token})


def _analytics_row(
    day: datetime, group: Mapping[str, Any], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    cents = sum((Decimal(str(row["cents"])) for row in rows), Decimal(0))
    listed = sum((Decimal(str(row.get("list_cents", row["cents"]))) for row in rows), Decimal(0))
    cost = {"amount": f"{cents:f}", "list_amount": f"{listed:f}", "currency": "USD"}
    return {
        "starting_at": f"{day:%Y-%m-%dT%H:%M:%SZ}",
        "ending_at": f"{day + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}",
        "group": dict(group),
        "cost": {**cost, "requests": None},
    }


def _claude_code(world: World, query: Query) -> Answer:
    """Return the rows of one day; a page has some of them."""
    day, limit = query["starting_at"][0], int(query.get("limit", ["20"])[0])
    if not 1 <= limit <= 1000 or len(day) != len("2026-01-01"):
        return _error(400, "invalid_request_error")
    found = [row for row in world.claude_code if row["date"].startswith(day)]
    try:
        shown, token = cut(found, query, limit, world.paging)
    except StalePageError:
        return _error(400, "invalid_request_error")
    return Answer({"data": shown, "has_more": token is not None, "next_page": token})


def _report(
    world: World,
    query: Query,
    rows: list[dict[str, Any]],
    result: Result,
    limits: tuple[int, int],
) -> Answer:
    try:
        start = datetime.fromisoformat(query["starting_at"][0])
        limit = int(query.get("limit", [str(limits[0])])[0])
    except (KeyError, ValueError):
        return _error(400, "invalid_request_error")
    if not 1 <= limit <= limits[1]:
        return _error(400, "invalid_request_error")
    width = _WIDTHS[query.get("bucket_width", ["1d"])[0]]
    end = world.now()
    if "ending_at" in query:
        end = min(end, datetime.fromisoformat(query["ending_at"][0]))
    starts = []
    first = start
    while first < end:
        starts.append(first)
        first += width
    by_bucket: dict[datetime, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if start <= row["time"] < end:
            by_bucket[start + (row["time"] - start) // width * width].append(row)
    if world.empty_is_400 and not by_bucket:
        return _error(400, "invalid_request_error")
    try:
        shown, token = cut(starts, query, limit, world.paging)
    except StalePageError:
        return _error(400, "invalid_request_error")
    names = [
        name
        for group in query.get("group_by[]", [])
        for name in (("description", *_DESCRIBED) if group == "description" else (group,))
    ]
    data = [
        {
            "starting_at": f"{each:%Y-%m-%dT%H:%M:%SZ}",
            "ending_at": f"{each + width:%Y-%m-%dT%H:%M:%SZ}",
            "results": group_rows(by_bucket.get(each, []), names, result),
        }
        for each in shown
    ]
    return Answer({"data": data, "has_more": token is not None, "next_page": token})


def _usage_result(group: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    def total(name: str) -> int:
        return sum(row.get(name, 0) for row in rows)

    return {
        **dict.fromkeys(_USAGE_KEYS),
        **group,
        "uncached_input_tokens": total("uncached_input_tokens"),
        "cache_creation": {
            "ephemeral_5m_input_tokens": total("cache_5m"),
            "ephemeral_1h_input_tokens": total("cache_1h"),
        },
        "cache_read_input_tokens": total("cache_read_input_tokens"),
        "output_tokens": total("output_tokens"),
        "server_tool_use": {"web_search_requests": total("web_search_requests")},
    }


def _cost_result(group: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    cents = sum((Decimal(str(row["cents"])) for row in rows), Decimal(0))
    return {
        "currency": "USD",
        "amount": f"{cents:f}",
        **dict.fromkeys(("workspace_id", "description", *_DESCRIBED)),
        **group,
    }


def _list(query: Query, found: list[dict[str, Any]]) -> Answer:
    after, limit = query.get("after_id", [""])[0], int(query.get("limit", ["20"])[0])
    ids = [each["id"] for each in found]
    offset = ids.index(after) + 1 if after in ids else 0
    shown = found[offset : offset + limit]
    return Answer(
        {
            "data": shown,
            "first_id": shown[0]["id"] if shown else None,
            "last_id": shown[-1]["id"] if shown else None,
            "has_more": offset + limit < len(found),
        }
    )


def _workspace(workspace_id: str, name: str) -> dict[str, Any]:
    return {
        **{"id": workspace_id, "type": "workspace", "name": name},
        **{"created_at": "2025-01-01T00:00:00Z", "archived_at": None, "display_color": "#6C5BB9"},
        **{"compartment_id": "cmp_1", "tags": {}, "external_key_id": None},
        "data_residency": {
            "allowed_inference_geos": "unrestricted",
            "default_inference_geo": "global",
            "workspace_geo": "us",
        },
    }


def _key(key_id: str, workspace_id: str | None, name: str) -> dict[str, Any]:
    return {
        **{"id": key_id, "type": "api_key", "name": name, "workspace_id": workspace_id},
        **{"created_at": "2025-01-01T00:00:00Z", "status": "active"},
        **{"partial_key_hint": "sk-ant-api03-R2D...igAA", "created_by": None},
        "scope": {"type": "workspace", "workspace_id": workspace_id or "wrkspc_default"},
    }


def _error(status: int, kind: str) -> Answer:
    return Answer({"type": "error", "error": {"type": kind, "message": "as documented"}}, status)
