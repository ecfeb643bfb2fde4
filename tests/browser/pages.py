"""Every page of the application: its path, who may see it, and its status.

The routes are those of the application's own URL map, so a page without a line here fails a test.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import requests
from playwright.sync_api import Browser, Response

from service.web.pages.public.client_index import get_client_wheel
from tests.browser.chromium import Window, opened
from tests.browser.site import LONG_SIGNED_IN, NEW, PENDING, RICH, Site
from tests.browser.states import STATES, Act
from tests.service.support.oauth_flow import AUTHORIZE
from tests.service.support.scenes import ADMIN_TOKEN
from tests.worker.support.mailing import get

_WHEEL: Final = get_client_wheel()
ADMIN_HEADERS: Final = {"X-Admin-Token": ADMIN_TOKEN}


@dataclass(frozen=True)
class Example:
    """One page as somebody sees it: `path` may hold names of what the site has in braces."""

    name: str
    path: str
    status: int = 200
    visitor: str | None = None
    is_admin: bool = False
    act: Act | None = None  # what is done there to see the page

    def path_on(self, site: Site) -> str:
        known = {name: getattr(site, name) for name in _NAMES}
        asked = urlencode(site.application.asks())
        return self.path.format(asked=asked, application=site.application.id, **known)

    def headers(self, site: Site) -> dict[str, str]:
        """What the visitor's browser sends along."""
        headers = {"Accept": "text/html", **(ADMIN_HEADERS if self.is_admin else {})}
        if self.visitor:
            headers["Cookie"] = "{name}={value}".format(**site.cookie(self.visitor))
        return headers

    def fetch(self, site: Site) -> requests.Response:
        """Return the response to the visitor, without a browser; one for all tests."""
        if self.name not in site.responses:
            headers = self.headers(site)
            site.responses[self.name] = get(site.system, self.path_on(site), **headers)
        return site.responses[self.name]

    def show(self, window: Window, site: Site) -> Response:
        """Open the page, act on it, and return the last response."""
        response = window.page.goto(self.path_on(site))
        assert response is not None
        assert response.status == (200 if self.act else self.status), self.name
        if self.act is not None:
            with window.page.expect_navigation() as navigation:
                self.act(window.page)
            response = navigation.value
        window.wait_until_stable()
        return response


_NAMES: Final = (
    "done",
    "failed",
    "queued",
    "processing",
    "broken",
    "report_token",
    "waiting_token",
    "link_token",
    "open_finding",
    "fixed_finding",
    "connection",
)


def _page(name: str, path: str, **more: object) -> tuple[Example, ...]:
    return (Example(name, path, **more),)  # type: ignore[arg-type]


def _seen_by(name: str, path: str, *people: str) -> tuple[Example, ...]:
    """The page of somebody who has much, and of others."""
    return tuple(
        Example(name if person == RICH else f"{name}-{person.partition('@')[0]}", path, 200, person)
        for person in people
    )


PAGES: Final[Mapping[str, tuple[Example, ...]]] = {
    "/": _page("landing", "/"),
    "/sample": _page("sample", "/sample") + _page("sample-finding", "/sample?finding=d1-001"),
    "/sign-in": _page("sign-in", "/sign-in?next=/upload")
    + _seen_by("sign-in-again", "/sign-in", RICH),
    "/sign-in/confirm": _seen_by("confirm", "/sign-in/confirm?next=/developer", LONG_SIGNED_IN),
    "/sign-in/passkey": _page("second-step", "/sign-in/passkey", visitor=PENDING),
    "/settings/passkeys": _seen_by("passkeys", "/settings/passkeys", RICH, NEW),
    "/settings/passkeys/add": _seen_by("passkey-add", "/settings/passkeys/add", RICH, NEW),
    "/auth/verify": _page("sign-in-refused", "/auth/verify?token=ml_wrong", status=422)
    + _page("sign-in-confirm", "/auth/verify?token={link_token}")
    + _seen_by("sign-in-switch", "/auth/verify?token={link_token}", RICH),
    "/deleted": _page("deleted", "/deleted"),
    "/docs": _page("docs", "/docs"),
    "/glossary": _page("glossary", "/glossary"),
    "/legal/dpa": _page("legal-dpa", "/legal/dpa"),
    "/legal/privacy": _page("legal-privacy", "/legal/privacy"),
    "/legal/terms": _page("legal-terms", "/legal/terms"),
    "/upload": _page("upload-signed-out", "/upload")
    + _seen_by("upload", "/upload", RICH, NEW)
    + _seen_by("upload-report", "/upload?kind=report", NEW),
    "/dashboard": _seen_by("dashboard", "/dashboard", RICH, NEW)
    + _seen_by(
        "dashboard-filtered", "/dashboard?days=90&group=model&route=support-bot&changed=1", RICH
    ),
    "/go": _seen_by("go", "/go?q=support", RICH),
    "/imports": _seen_by("imports", "/imports?until=2026-10-05", RICH, NEW)
    + _seen_by("imports-nothing-fits", "/imports?status=failed&source=account", RICH)
    + _seen_by(
        "imports-of-a-client", "/imports?day=2026-10-03&client=production&environment=eu", RICH
    ),
    "/imports/future": _seen_by("future-calls", "/imports/future", RICH, NEW),
    "/spend": _seen_by("spend", "/spend", RICH, NEW)
    + _seen_by("spend-filtered", "/spend?days=90&group=model&route=support-bot", RICH)
    + _seen_by("spend-problem", "/spend?from=2026-03-02&to=2026-03-01", RICH),
    "/route": _seen_by("route", "/route?route=support-bot", RICH)
    + _seen_by("route-choice", "/route", RICH)
    + _page("route-unknown", "/route?route=suport-bot", status=404, visitor=RICH),
    "/compare": _seen_by("compare", "/compare", RICH, NEW)
    + _page("compare-problem", "/compare?from=2026-03-02&to=2026-03-01", status=422, visitor=RICH),
    "/model": _seen_by("model", "/model?model=gpt-5.5&provider=openai", RICH),
    "/audits/<audit_id>": _seen_by("audit-done", "/audits/{done}", RICH)
    + _seen_by("audit-finding", "/audits/{done}?finding=d1-001", RICH)
    + _seen_by("audit-queued", "/audits/{queued}", RICH)
    + _seen_by("audit-processing", "/audits/{processing}", RICH)
    + _seen_by("audit-failed", "/audits/{failed}", RICH)
    + _page("error-500", "/audits/{broken}", status=500, visitor=RICH)
    + _page("audit-nobodys", "/audits/nothing", status=404, visitor=RICH),
    "/r/<token>": _page("report", "/r/{report_token}")
    + _page("report-finding", "/r/{report_token}?finding=d1-001")
    + _page("report-waiting", "/r/{waiting_token}")
    + _page("error-404", "/r/altered", status=404),
    "/developer": _seen_by("developer", "/developer", RICH, NEW),
    "/developer/applications": _seen_by("applications", "/developer/applications", RICH, NEW),
    "/developer/applications/<application_id>": _seen_by(
        "application", "/developer/applications/{application}", RICH
    ),
    "/oauth/authorize": _seen_by("consent", AUTHORIZE + "?{asked}", RICH)
    + _page("consent-refused", f"{AUTHORIZE}?client_id=oac_wrong", status=400, visitor=RICH),
    "/billing": _seen_by("billing", "/billing", RICH, NEW),
    "/settings": _seen_by("settings", "/settings", RICH)
    + _seen_by("settings-saved", "/settings?saved=", RICH),
    "/settings/assumptions": _seen_by("assumptions", "/settings/assumptions", RICH),
    "/findings": _seen_by("account-findings", "/findings?state=all", RICH, NEW)
    + _seen_by("account-findings-filtered", "/findings?state=fixed&route=support-bot", RICH)
    + _seen_by("account-findings-none", "/findings?state=open&assignee=nobody", RICH),
    "/findings/<finding_id>": _seen_by("account-finding", "/findings/{open_finding}", RICH)
    + _seen_by("account-finding-fixed", "/findings/{fixed_finding}", RICH)
    + _page("account-finding-nobodys", "/findings/nothing", status=404, visitor=RICH),
    "/settings/recalculate": _seen_by("recalculation", "/settings/recalculate", RICH),
    "/settings/prices": _seen_by("prices", "/settings/prices", RICH)
    + _seen_by("prices-set", "/settings/prices?provider=azure&model=gpt-4o-prod", RICH),
    "/settings/applications": _seen_by("allowed", "/settings/applications", RICH),
    "/settings/delete": _seen_by("delete-account", "/settings/delete", RICH),
    "/settings/activity": _seen_by("activity", "/settings/activity", RICH, NEW),
    "/settings/report-links": _seen_by("report-links", "/settings/report-links", RICH, NEW),
    "/settings/connections": _seen_by("connections", "/settings/connections", RICH, NEW),
    "/settings/connections/add": _seen_by(
        "connection-add", "/settings/connections/add?provider=openai", RICH
    ),
    "/settings/connections/<connection_id>": _seen_by(
        "connection", "/settings/connections/{connection}", RICH
    ),
    "/plan-usage": _seen_by("plan-usage", "/plan-usage?from=2025-11-01&to=2025-11-30", RICH, NEW),
    "/bill": _seen_by("bill", "/bill", RICH, NEW),
    "/bill/savings": _seen_by("bill-savings", "/bill/savings", RICH, NEW),
    "/bill/<provider>/<month>": _seen_by("bill-month", "/bill/openai/2026-02", RICH),
    "/bill/agents/<agent>/<month>": _seen_by(
        "bill-agent", "/bill/agents/claude-code/2026-02", RICH
    ),
    "/settings/budgets": _seen_by("budgets", "/settings/budgets", RICH, NEW),
    "/settings/notices": _seen_by("notices", "/settings/notices", RICH, NEW)
    + _seen_by("notices-sent", "/settings/notices?sent=", RICH),
    "/settings/notices/add": _seen_by("notice-add", "/settings/notices/add", RICH),
    "/settings/sessions": _seen_by("sessions", "/settings/sessions", RICH),
    "/admin": _page("admin", "/admin", is_admin=True),
}

# What is no page of its own: what it answers instead, to whom.
OTHERS: Final[Mapping[str, tuple[str, Example]]] = {
    "/audits/<audit_id>/progress": (
        "text/html",  # a part that its page fetches
        Example("progress", "/audits/{processing}/progress", 200, RICH),
    ),
    # These lead to the sign-in form.
    "/login": ("text/html", Example("login", "/login", 303)),
    "/signin": ("text/html", Example("signin", "/signin", 303)),
    "/signup": ("text/html", Example("signup", "/signup", 303)),
    "/dashboard/first": (
        "application/json",  # what a page that waits for the first call asks
        Example("first-call", "/dashboard/first", 200, NEW),
    ),
    "/.well-known/oauth-authorization-server": (
        "application/json",
        Example("oauth-metadata", "/.well-known/oauth-authorization-server"),
    ),
    "/admin/audits/<audit_id>/report": (
        "application/pdf",
        Example("admin-pdf", "/admin/audits/{done}/report", is_admin=True),
    ),
    "/admin/early-access.csv": (
        "text/csv",
        Example("early-access", "/admin/early-access.csv", is_admin=True),
    ),
    "/admin/openapi.json": (
        "application/json",
        Example("admin-openapi", "/admin/openapi.json", is_admin=True),
    ),
    "/.well-known/security.txt": (
        "text/plain",
        Example("security-txt", "/.well-known/security.txt"),
    ),
    "/healthz": ("application/json", Example("healthz", "/healthz")),
    "/readyz": ("application/json", Example("readyz", "/readyz")),
    "/openapi.json": ("application/json", Example("openapi", "/openapi.json")),
    "/audits/<audit_id>/pdf": (
        "application/pdf",
        Example("owned-pdf", "/audits/{done}/pdf", 200, RICH),
    ),
    "/audits/<audit_id>/json": (
        "application/json",
        Example("owned-json", "/audits/{done}/json", 200, RICH),
    ),
    "/audits/<audit_id>/findings.csv": (
        "text/csv",
        Example("owned-csv", "/audits/{done}/findings.csv", 200, RICH),
    ),
    "/audits/<audit_id>/calls/<finding_id>.csv": (
        "text/html",  # the calls themselves are computed by a worker
        Example("owned-calls", "/audits/{done}/calls/d9-001.csv", 404, RICH),
    ),
    "/audits/<audit_id>/calls/<finding_id>.xlsx": (
        "text/html",
        Example("owned-calls-xlsx", "/audits/{done}/calls/d9-001.xlsx", 404, RICH),
    ),
    "/spend.csv": ("text/csv", Example("spend-csv", "/spend.csv", 200, RICH)),
    "/spend.focus.csv": ("text/csv", Example("spend-focus", "/spend.focus.csv", 200, RICH)),
    "/spend.xlsx": (
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        Example("spend-xlsx", "/spend.xlsx", 200, RICH),
    ),
    "/findings.csv": ("text/csv", Example("findings-csv", "/findings.csv?state=all", 200, RICH)),
    "/findings.xlsx": (
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        Example("findings-xlsx", "/findings.xlsx", 200, RICH),
    ),
    "/settings/prices/export": (
        "application/toml",
        Example("prices-export", "/settings/prices/export", 200, RICH),
    ),
    "/r/<token>/pdf": ("application/pdf", Example("pdf", "/r/{report_token}/pdf")),
    "/r/<token>/json": ("application/json", Example("json", "/r/{report_token}/json")),
    "/r/<token>/findings.csv": ("text/csv", Example("findings", "/r/{report_token}/findings.csv")),
    "/sample/pdf": ("application/pdf", Example("sample-pdf", "/sample/pdf")),
    "/sample/json": ("application/json", Example("sample-json", "/sample/json")),
    "/sample/findings.csv": ("text/csv", Example("sample-csv", "/sample/findings.csv")),
    # A package index has a form of its own, which programs read.
    "/client/": ("text/html", Example("client-projects", "/client/")),
    "/client/tallystick/": ("text/html", Example("client-files", "/client/tallystick/")),
    "/client/files/<digest>/<file_name>": (
        "application/octet-stream",
        Example("client-wheel", f"/client/files/{_WHEEL.sha256}/{_WHEEL.file_name}"),
    ),
    "/static/<path:filename>": ("text/css", Example("static", "/static/tallystick.css")),
}

# Pages that no route has: answers to what was done on another one, and errors.
BEYOND: Final = (
    *(
        Example(name, path, 200, f"{person}@example.org" if person else None, act=act)
        for name, (path, person, act) in STATES.items()
    ),
    Example("nothing", "/nothing", 404),
    Example("error-405", "/auth/logout", 405),
)
EXAMPLES: Final = (*(one for examples in PAGES.values() for one in examples), *BEYOND)
# Each template once: the first page of a route, but for routes that share a template, and for those
# that have a second one.
_ONE_OF_EACH: Final = (
    {examples[0].name for examples in PAGES.values()} - {"sample", "legal-dpa", "legal-privacy"}
) | {"upload", "report-finding", "report-waiting", "nothing"}
TEMPLATES: Final = tuple(example for example in EXAMPLES if example.name in _ONE_OF_EACH)
ALL: Final = (*EXAMPLES, *(example for _, example in OTHERS.values()))


def named(name: str) -> Example:
    return next(one for one in EXAMPLES if one.name == name)


@contextmanager
def opened_for(browser: Browser, site: Site, example: Example, **options: Any) -> Iterator[Window]:
    """The window of the page's visitor."""
    headers = ADMIN_HEADERS if example.is_admin else {}
    cookie = site.cookie(example.visitor) if example.visitor else None
    url = site.system.base_url
    with opened(browser, url, cookie, extra_http_headers=headers, **options) as window:
        yield window
