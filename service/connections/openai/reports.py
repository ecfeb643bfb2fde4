"""OpenAI's usage and cost reports, and the lines that they become.

The fields are those of the types in `openai.types.admin.organization`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

from service.connections.client import MissingRightError
from service.connections.provider import (
    COSTS,
    CREDIT,
    DAY,
    HOUR,
    OTHER_FEE,
    TAX,
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

_BY_KEY: Final = ("project_id", "api_key_id", "model")
_BY_TIER: Final = (*_BY_KEY, "batch", "service_tier")
_PROJECTS: Final = "/organization/projects"
_COSTS: Final = "/organization/costs"
_NAMES_AT_ONCE: Final = 100
_MOST_NAME_PAGES: Final = 50
# How far back the first cost is looked for.
_LOOK_BACK: Final = timedelta(days=180)


def _usage(kind: str, *, grouping: Sequence[str] = _BY_KEY, hourly: bool = False) -> Report:
    width, most, days = (HOUR, 168, 7) if hourly else (DAY, 31, 90)
    return Report(
        name=f"{kind}_hourly" if hourly else kind,
        kind=USAGE,
        path=f"/organization/usage/{kind}",
        grouping=grouping,
        width=width,
        most_buckets=most,
        days_back=days,
        is_optional=kind != "completions",
    )


REPORTS: Final = (
    Report(
        name="costs",
        kind=COSTS,
        path=_COSTS,
        grouping=("project_id", "line_item"),
        most_buckets=90,
        every=DAY,
    ),
    _usage("completions", grouping=_BY_TIER),
    _usage("completions", grouping=_BY_TIER, hourly=True),
    _usage("embeddings"),
    _usage("moderations"),
    _usage("images"),
    _usage("audio_speeches"),
    _usage("audio_transcriptions"),
    _usage("vector_stores", grouping=("project_id",)),
    _usage("code_interpreter_sessions", grouping=("project_id",)),
    _usage("file_search_calls", grouping=("project_id", "api_key_id")),
    _usage("web_search_calls", grouping=_BY_KEY),
)
# Counts of other reports, by what the price book calls them, or else we do.
_UNITS: Final[Mapping[str, str]] = {
    "images": "images",
    "characters": "input_characters",
    "seconds": "input_audio_seconds",
    "usage_bytes": "storage_bytes",
    "num_sessions": "code_executions",
}
# Their calls are part of the completions' requests.
_SEARCHES: Final[Mapping[str, str]] = {
    "file_search_calls": "storage_searches",
    "web_search_calls": "web_searches",
}
# Parts of the tokens of completions.
_PARTS: Final[Mapping[str, str]] = {
    "input_audio_tokens": "input_audio_tokens",
    "input_image_tokens": "input_image_tokens",
    "input_cached_audio_tokens": "cache_audio_read_tokens",
    "input_cached_image_tokens": "cache_image_read_tokens",
    "output_audio_tokens": "output_audio_tokens",
    "output_image_tokens": "output_image_tokens",
}
COUNTS: Final = {**_UNITS, **_PARTS}
_TIERS: Final[Mapping[str, str]] = {"default": "", "standard": "", "auto": ""}
# A line item of tokens is "<model>, <what>"; a fee names the tool.
_TOKENS: Final = re.compile(
    r"(?P<model>[\w.:/@-]+)(?:, *|  *\| *)(?P<batch>batch,? *)?"
    r"(?:(?:text|audio|image|cached|cache|uncached)[ _-])*"
    r"(?:input|output|cached|cache[ _-]writes?|training)(?:_tokens)?\b.*",
    re.IGNORECASE,
)
_FEES: Final[Sequence[tuple[str, re.Pattern[str]]]] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (TAX, r"\b(?:sales )?(?:tax|vat|gst)\b"),
        (CREDIT, r"\bcredits?\b|\brefund|\bpromo"),
        ("file_search", r"file[ _-]?search"),
        ("web_search", r"web[ _-]?search|\bsearch\b"),
        ("code_execution", r"code[ _-]?interpreter|\bcontainers?\b"),
        ("storage", r"storage|vector[ _-]?stores?"),
        ("seats", r"\bseats?\b"),
    )
)
_MODEL: Final = re.compile(r"[a-z0-9]+(?:[-.:][\w.]+)+", re.IGNORECASE)  # of speech, say


class OpenAI(Provider):
    name = "openai"
    title = "OpenAI"
    base_url = "https://api.openai.com/v1"
    key_prefix = "sk-admin-"
    key_page = "https://platform.openai.com/settings/organization/admin-keys"
    key_words = "an admin key, which an owner of the organization makes"
    reports: Sequence[Report] = REPORTS

    def headers(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def parameters(self, window: Window, page: str | None) -> Sequence[tuple[str, str]]:
        report = window.report
        query = [
            ("start_time", _seconds(window.first)),
            ("bucket_width", "1h" if report.width == HOUR else "1d"),
            ("limit", str(report.most_buckets)),
            *(("group_by[]", name) for name in report.grouping),
        ]
        if window.last is not None:
            query.append(("end_time", _seconds(window.last)))
        return query if page is None else [*query, ("page", page)]

    def read_page(self, report: Report, body: Any) -> Page:
        read = _read_cost if report.kind == COSTS else partial(read_usage, report.name)
        buckets: dict[datetime, list[Line]] = {}
        for bucket in body["data"]:
            start = datetime.fromtimestamp(bucket["start_time"], UTC)
            buckets[start] = [read(start, row) for row in bucket["results"]]
        return Page(buckets, body["next_page"] if body["has_more"] else None)

    def look(self, client: Asking, now: datetime) -> Sight:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        first = midnight - _LOOK_BACK
        query = [("start_time", _seconds(first)), ("limit", "180"), ("group_by[]", "project_id")]
        page = self.read_page(REPORTS[0], client.get(_COSTS, query))
        usage = [("start_time", _seconds(midnight)), ("limit", "1")]
        client.get("/organization/usage/completions", usage)
        projects, missing = list[str](), []
        try:
            projects += (clean(each["id"]) for each in _list(client, _PROJECTS))
        except MissingRightError:
            missing = ["projects"]
        dated = [day for day, lines in page.buckets.items() if lines]
        # No report names the organization, and no two have the same project.
        lines = (line for found in page.buckets.values() for line in found)
        billed = {line.project_id for line in lines if isinstance(line, CostLine)}
        first_cost = min(dated, default=None)
        return Sight("", len(projects), first_cost, missing, sorted({*projects, *billed}))

    def list_names(self, client: Asking) -> Iterator[Name]:
        for project in _list(client, _PROJECTS):
            project_id = clean(project["id"])
            yield Name("project", project_id, clean(project.get("name")))
            try:
                for key in _list(client, f"{_PROJECTS}/{project['id']}/api_keys"):
                    yield Name("key", clean(key["id"]), clean(key.get("name")), project_id)
            except MissingRightError:
                continue


def _list(client: Asking, path: str) -> Iterator[Any]:
    after = ""
    for _page in range(_MOST_NAME_PAGES):
        more = [("after", after)] if after else []
        body = client.get(path, [("limit", str(_NAMES_AT_ONCE)), *more])
        yield from body["data"]
        if not body.get("has_more") or body["last_id"] == after:
            return
        after = body["last_id"]


def read_usage(report: str, bucket: datetime, row: Mapping[str, Any]) -> UsageLine:
    units = {ours: row[theirs] for theirs, ours in COUNTS.items() if row.get(theirs)}
    for kind in ("audio", "image"):  # the book's input of a kind includes what was cached of it
        cached = units.get(f"cache_{kind}_read_tokens", 0)
        if cached:
            units[f"input_{kind}_tokens"] = units.get(f"input_{kind}_tokens", 0) + cached
    if report in _SEARCHES:
        units[_SEARCHES[report]] = row["num_requests"]
    tier = clean(row.get("service_tier")).lower()
    return UsageLine(
        bucket=bucket,
        project_id=clean(row.get("project_id")),
        key_id=clean(row.get("api_key_id")),
        model=clean(row.get("model")),
        tier="batch" if row.get("batch") else _TIERS.get(tier, tier),
        requests=0 if report in _SEARCHES else row.get("num_model_requests") or 0,
        prompt_tokens=row.get("input_tokens") or 0,
        completion_tokens=row.get("output_tokens") or 0,
        cached_tokens=row.get("input_cached_tokens") or 0,
        cache_write_tokens=row.get("input_cache_write_tokens") or 0,
        units=units,
    )


def _read_cost(bucket: datetime, row: Mapping[str, Any]) -> CostLine:
    line_item, amount = clean(row.get("line_item")), row.get("amount") or {}
    kind, model = classify(line_item)
    return CostLine(
        bucket=bucket,
        project_id=clean(row.get("project_id")),
        key_id=clean(row.get("api_key_id")),
        line_item=line_item,
        kind=kind,
        model=model,
        amount=Decimal(str(amount.get("value") or 0)),
        currency=clean(amount.get("currency")).upper() or "USD",
    )


def classify(line_item: str) -> tuple[str, str]:
    """Return what a line item is for, and the model of tokens; it has only a text."""
    tokens = _TOKENS.fullmatch(line_item)
    if tokens:
        return TOKENS, tokens["model"].lower()
    for kind, pattern in _FEES:
        if pattern.search(line_item):
            return kind, ""
    return (TOKENS, line_item.lower()) if _MODEL.fullmatch(line_item) else (OTHER_FEE, "")


def _seconds(moment: datetime) -> str:
    return str(int(moment.timestamp()))
