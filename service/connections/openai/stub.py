"""A stub that plays OpenAI's usage, costs and projects, as their reference documents them."""

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

KEY: Final = "sk-admin-stub"
_WIDTHS: Final = {"1d": timedelta(days=1), "1h": timedelta(hours=1), "1m": timedelta(minutes=1)}
_LIMITS: Final = {"1d": (7, 31), "1h": (24, 168), "1m": (60, 1440)}
_COST_LIMITS: Final = (7, 180)
_RESULTS: Final = {"file_search_calls": "file_searches", "web_search_calls": "web_searches"}
_COUNTS: Final = {
    "completions": ("input_tokens", "output_tokens", "num_model_requests"),
    "embeddings": ("input_tokens", "num_model_requests"),
    "moderations": ("input_tokens", "num_model_requests"),
    "images": ("images", "num_model_requests"),
    "audio_speeches": ("characters", "num_model_requests"),
    "audio_transcriptions": ("seconds", "num_model_requests"),
    "vector_stores": ("usage_bytes",),
    "code_interpreter_sessions": ("num_sessions",),
    "file_search_calls": ("num_requests",),
    "web_search_calls": ("num_requests", "num_model_requests"),
}
_MORE: Final = (
    *("input_cached_tokens", "input_cache_write_tokens", "input_uncached_tokens"),
    *("input_audio_tokens", "output_audio_tokens", "input_cached_audio_tokens"),
)
_DIMENSIONS: Final = ("project_id", "user_id", "api_key_id", "model")
_OWN_DIMENSIONS: Final = {
    "completions": (*_DIMENSIONS, "batch", "service_tier"),
    "vector_stores": ("project_id",),
    "code_interpreter_sessions": ("project_id",),
    "file_search_calls": ("project_id", "user_id", "api_key_id"),
}


@dataclass
class World:
    """What the organization used and paid: rows with a `time`, dimensions and counts."""

    usage: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    costs: list[dict[str, Any]] = field(default_factory=list)
    projects: dict[str, str] = field(default_factory=dict)
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)  # project and name
    key: str = KEY
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    paging: Paging = field(default_factory=Paging)
    forbidden: set[str] = field(default_factory=set)


def make_stub(world: World) -> Stub:
    def answer(path: str, query: Query, headers: Headers) -> Answer:
        path = path.removeprefix("/v1")
        if headers.get("authorization") != f"Bearer {world.key}":
            is_project = headers.get("authorization", "").startswith("Bearer sk-proj-")
            return _error(401, "invalid_key_type" if is_project else "invalid_api_key")
        if path in world.forbidden:
            return _error(403, "insufficient_permissions")
        if path == "/organization/projects":
            return _list(
                query,
                [
                    {
                        **{"object": "organization.project", "id": project_id, "name": name},
                        **{"created_at": 1_700_000_000, "archived_at": None, "status": "active"},
                    }
                    for project_id, name in world.projects.items()
                ],
            )
        if path.endswith("/api_keys"):
            project = path.split("/")[-2]
            creator = {"type": "service_account", "service_account": None, "user": None}
            found = [
                {
                    "object": "organization.project.api_key",
                    "redacted_value": "sk-proj-...abc",
                    "owner_project_access": "active",
                    **{"id": key_id, "name": name, "created_at": 1_700_000_000, "owner": creator},
                }
                for key_id, (owner, name) in world.keys.items()
                if owner == project
            ]
            return _list(query, found)
        kind = path.removeprefix("/organization/usage/")
        if path == "/organization/costs":
            return _report(world, query, world.costs, _cost_result, _COST_LIMITS)
        if kind not in _COUNTS:
            return _error(404, "unknown_url")
        width = query.get("bucket_width", ["1d"])[0]
        if width not in _WIDTHS:
            return _error(400, "invalid_bucket_width")

        def result(group: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
            counts = {name: sum(row.get(name, 0) for row in rows) for name in _COUNTS[kind]}
            counts |= {
                name: sum(row.get(name, 0) for row in rows)
                for name in _MORE
                if any(name in row for row in rows)
            }
            return {
                "object": f"organization.usage.{_RESULTS.get(kind, kind)}.result",
                **counts,
                **dict.fromkeys(_OWN_DIMENSIONS.get(kind, _DIMENSIONS)),
                **group,
            }

        return _report(world, query, world.usage[kind], result, _LIMITS[width])

    return Stub(answer)


def _report(
    world: World,
    query: Query,
    rows: list[dict[str, Any]],
    result: Result,
    limits: tuple[int, int],
) -> Answer:
    try:
        start = int(query["start_time"][0])
        limit = int(query.get("limit", [str(limits[0])])[0])
    except (KeyError, ValueError):
        return _error(400, "invalid_request_error")
    if not 1 <= limit <= limits[1]:
        return _error(400, "invalid_limit")
    width = _WIDTHS[query.get("bucket_width", ["1d"])[0]].total_seconds()
    newest = world.now().timestamp()
    end = min(float(query.get("end_time", [str(newest)])[0]), newest)
    starts = []
    first = start - start % width
    while first < end:
        starts.append(first)
        first += width
    by_bucket: dict[float, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        moment = row["time"].timestamp()
        if start <= moment < end:
            by_bucket[moment - moment % width].append(row)
    grouping = query.get("group_by[]", [])
    try:
        shown, token = cut(starts, query, limit, world.paging)
    except StalePageError:
        return _error(400, "invalid_page")
    data = [
        {
            "object": "bucket",
            "start_time": int(each),
            "end_time": int(each + width),
            "results": group_rows(by_bucket.get(each, []), grouping, result),
        }
        for each in shown
    ]
    more = {"has_more": token is not None, "next_page": token}
    return Answer({"object": "page", "data": data, **more})


def _cost_result(group: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    currency = rows[0].get("currency", "usd")
    value = sum((Decimal(str(row["amount"])) for row in rows), Decimal(0))
    return {
        "object": "organization.costs.result",
        "amount": {"value": float(value), "currency": currency},
        **{"line_item": None, "project_id": None, "api_key_id": None, "quantity": None},
        **group,
    }


def _list(query: Query, found: list[dict[str, Any]]) -> Answer:
    after, limit = query.get("after", [""])[0], int(query.get("limit", ["20"])[0])
    ids = [each["id"] for each in found]
    offset = ids.index(after) + 1 if after in ids else 0
    shown = found[offset : offset + limit]
    return Answer(
        {
            "object": "list",
            "data": shown,
            "first_id": shown[0]["id"] if shown else "",
            "last_id": shown[-1]["id"] if shown else "",
            "has_more": offset + limit < len(found),
        }
    )


def _error(status: int, code: str) -> Answer:
    said = {"message": "as documented", "type": "invalid_request_error", "code": code}
    return Answer({"error": {**said, "param": None}}, status)
