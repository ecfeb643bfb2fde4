"""/go: find a page, a route, a model or a finding by a part of its name."""

from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import urlencode

from flask import render_template, request, url_for

from detectors.wording.actions import title
from service.models.calls.finding_list import FindingFilter, list_account_findings
from service.models.calls.spend import find_names
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import get_session

_PAGES: Final = {
    "Overview": "/dashboard",
    "Spend": "/spend",
    "Plan usage": "/plan-usage",
    "Findings": "/findings",
    "Bill": "/bill",
    "Savings by provider reports": "/bill/savings",
    "Imports": "/imports",
    "Calls dated after today": "/imports/future",
    "Compare": "/compare",
    "Upload a log": "/upload",
    "Connections": "/settings/connections",
    "Connect a provider": "/settings/connections/add",
    "Developer: ingest keys and read tokens": "/developer",
    "OAuth applications: your own": "/developer/applications",
    "Authorized applications": "/settings/applications",
    "Billing: plan and credits": "/billing",
    "Settings": "/settings",
    "Budgets": "/settings/budgets",
    "Prices": "/settings/prices",
    "Assumptions": "/settings/assumptions",
    "Webhooks and Slack": "/settings/notices",
    "Report links": "/settings/report-links",
    "Passkeys": "/settings/passkeys",
    "Active sessions": "/settings/sessions",
    "Activity": "/settings/activity",
    "Recalculate reports": "/settings/recalculate",
    "Delete account": "/settings/delete",
    "Sample report": "/sample",
    "API reference": "/docs",
    "Glossary": "/glossary",
}
_LISTED: Final = 6  # of each kind
_MOST_CHARACTERS: Final = 200

blueprint = PrivatePages("go", __name__)


class Target(NamedTuple):
    """A link of the list, with its kind."""

    words: str
    kind: str
    address: str


@blueprint.get("/go")
@require_visitor
def go() -> str:
    text = request.args.get("q", "")[:_MOST_CHARACTERS].replace("\0", "").strip()
    return render_template("pages/go.html", text=text, targets=list(_find(text)))


def _find(text: str) -> Iterator[Target]:
    session, account_id = get_session(), current_caller().account_id
    for words, address in _PAGES.items():
        if text.lower() in words.lower():
            yield Target(words, "Page", address)
    if not text:
        return
    for kind in ("route", "model"):
        for name in find_names(session, account_id, kind, text, _LISTED):
            yield Target(name, kind.capitalize(), f"/{kind}?{urlencode({kind: name})}")
    wanted = FindingFilter(state="all", search=text)
    for each in list_account_findings(session, account_id, wanted, _LISTED):
        address = url_for("findings_detail.show", finding_id=each.id)
        yield Target(str(title(each)), "Finding", address)
