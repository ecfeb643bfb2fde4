"""The list of imports on the dashboard, with its filters and pages."""

from urllib.parse import urlencode

from flask import request

from service.models.audits.audits import SOURCES, STATUSES
from service.models.audits.dashboard import AuditPage, Filters
from service.web.http.paths import read_id


def read_filters() -> Filters:
    """Return the filters of the query string; ignore unknown values."""
    query = request.args
    return Filters(
        status=_known_value(query.get("status"), STATUSES),
        source=_known_value(query.get("source"), SOURCES),
        before=read_id(query.get("before", "")),
        after=read_id(query.get("after", "")),
    )


def _known_value(text: str | None, known: tuple[str, ...]) -> str:
    return text if text in known else ""


def link_pages(page: AuditPage, filters: Filters) -> dict[str, str]:
    """Return the links to the newer and older pages that exist."""
    query = {"status": filters.status, "source": filters.source}
    query = {name: value for name, value in query.items() if value}
    links = {}
    if page.newer and page.rows:
        links["newer"] = f"?{urlencode({**query, 'after': page.rows[0].id})}#audits"
    if page.older and page.rows:
        links["older"] = f"?{urlencode({**query, 'before': page.rows[-1].id})}#audits"
    return links
