"""OpenRouter's activity of the last 30 days, and the lines that it becomes.

One request has all of it: tokens and dollars by day, workspace, model and endpoint. It leaves out
what was read from a cache, so usage has the report's own dollars instead of our price.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from service.connections.client import MissingRightError
from service.connections.provider import (
    BOTH,
    DAY,
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

_ACTIVITY: Final = "/activity"
_WORKSPACES: Final = "/workspaces"
_BY_WORKSPACE: Final = (("group_by", "workspace"),)
_DAYS: Final = 30  # older ones are gone
_NAMES_AT_ONCE: Final = 100
_MOST_NAME_PAGES: Final = 50


REPORTS: Final = (
    Report(
        name="activity",
        kind=BOTH,
        path=_ACTIVITY,
        grouping=("workspace", "model", "endpoint"),
        most_buckets=_DAYS,
        every=DAY / 4,  # a day appears when it is over
        days_back=_DAYS,
    ),
)


class OpenRouter(Provider):
    name = "openrouter"
    title = "OpenRouter"
    base_url = "https://openrouter.ai/api/v1"
    key_prefix = "sk-or-"
    key_page = "https://openrouter.ai/settings/management-keys"
    key_words = "a management key, which an owner of the account makes"
    prices_usage = True
    reports: Sequence[Report] = REPORTS

    def headers(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def parameters(self, window: Window, page: str | None) -> Sequence[tuple[str, str]]:
        return _BY_WORKSPACE

    def read_page(self, report: Report, body: Any) -> Page:
        lines: list[Line] = []
        for row in body["data"]:
            shared: dict[str, Any] = {
                "bucket": datetime.fromisoformat(row["date"][:10]).replace(tzinfo=UTC),
                "project_id": clean(row.get("workspace_id")),
                "model": clean(row["model"]),
            }
            usd = Decimal(str(row["usage"]))
            usage = UsageLine(
                **shared,
                context=clean(row.get("provider_name")),
                requests=row["requests"],
                prompt_tokens=row["prompt_tokens"],
                completion_tokens=row["completion_tokens"],
                usd=usd,
            )
            lines += [usage, CostLine(**shared, line_item=shared["model"], amount=usd)]
        return Page.of(lines)

    def look(self, client: Asking, now: datetime) -> Sight:
        found = self.read_page(REPORTS[0], client.get(_ACTIVITY, _BY_WORKSPACE))
        workspaces, missing = list[str](), []
        try:
            workspaces = [name.id for name in self.list_names(client)]
        except MissingRightError:
            missing.append("projects")
        first = min(found.buckets, default=None)
        return Sight("", len(workspaces), first, missing, identity=workspaces)

    def list_names(self, client: Asking) -> Iterator[Name]:
        seen = 0
        for _page in range(_MOST_NAME_PAGES):
            query = [("limit", str(_NAMES_AT_ONCE)), ("offset", str(seen))]
            body = client.get(_WORKSPACES, query)
            for each in body["data"]:
                yield Name("project", clean(each["id"]), clean(each.get("name")))
            seen += len(body["data"])
            if not body["data"] or seen >= body["total_count"]:
                return
