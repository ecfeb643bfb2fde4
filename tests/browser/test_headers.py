"""Follow every link of every page, and check the headers and the logs."""

import re
from html import unescape
from typing import Final
from urllib.parse import urljoin, urlsplit

import pytest
import requests

from service.web.http.headers import SECURITY_HEADERS
from tests.browser.pages import ALL, EXAMPLES, PAGES, Example
from tests.browser.site import Site
from tests.worker.support.mailing import get
from tests.worker.support.promises import Note, at_a_fortieth, sampled

_LINK: Final = re.compile(r'(?:href|src|action|data-evidence)="([^"]+)"')
# Forms and visits that sign somebody out or wait for a mail; what they answer is tested elsewhere.
_NOT_FOLLOWED: Final = ("/auth/",)
_VARYING: Final = ("Referrer-Policy", "Content-Security-Policy")


@pytest.mark.parametrize(
    "example", sampled([one for one in ALL if not one.act], 12), ids=lambda one: one.name
)
def test_the_headers_of_every_answer(site: Site, example: Example) -> None:
    """Of every twelfth by default; all come from one function, as the links below show."""
    answer = example.fetch(site)
    assert answer.status_code == example.status
    _check_headers(answer)
    if example.path.startswith("/r/"):
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["X-Robots-Tag"] == "noindex, nofollow"
    elif example.visitor:
        assert answer.headers["Cache-Control"] == "no-store"


@at_a_fortieth
def test_every_link_of_every_page_leads_somewhere_with_the_same_headers(
    site: Site, note: Note, share: float
) -> None:
    seen: set[tuple[str | None, str]] = set()
    broken: list[str] = []
    errors = {one.path_on(site) for one in EXAMPLES if one.status != 200}
    for example in EXAMPLES:
        if example.act or example.is_admin:
            continue
        headers = example.headers(site)
        links = _links_of(example.fetch(site).text, example.path_on(site)) - errors
        for link in sorted(links):
            if (example.visitor, link) in seen:
                continue
            seen.add((example.visitor, link))
            if len(seen) % round(1 / share):
                continue
            answer = get(site.system, link, **headers)
            _check_headers(answer)
            if answer.status_code not in (200, 303, 405):  # 405: a form's address
                broken.append(f"{example.name}: {link} {answer.status_code}")
    assert broken == [], "\n".join(broken)
    assert len(seen) > len(PAGES)
    followed = len(seen) // round(1 / share)
    note("34 every page and link has the security headers", followed, len(broken))


def test_pages_ask_no_other_site_for_anything_and_name_no_report(site: Site) -> None:
    """But the report's own page, its owner's view of it, and the shops."""
    for example in EXAMPLES:
        if example.act:
            continue
        page = example.fetch(site).text
        outside = re.findall(r'(?:src|srcset|data|poster)="(?:https?:)?//[^"]+"', page)
        assert outside == []
        if example.name not in ("report", "report-finding", "audit-done", "report-waiting"):
            assert "/r/" not in "".join(_LINK.findall(page)), example.name


def test_no_log_holds_a_report_token(site: Site) -> None:
    for ending in ("", "/pdf", "/json", "/findings.csv", "?finding=d1-001", "/nothing"):
        get(site.system, f"/r/{site.report_token}{ending}")
        get(site.system, f"/r/{site.report_token[:-2]}xx{ending}")
    logs = {path.name: path.read_text() for path in site.system.folder.glob("*.log")}
    assert '"path": "/r/<token>/pdf"' in logs["web.log"] or "/r/<token>" in logs["web.log"]
    for token in (site.report_token, site.waiting_token):
        for part in (token, token.partition(".")[0], token[:-2]):
            assert [name for name, text in logs.items() if part in text] == []


def _check_headers(answer: requests.Response) -> None:
    for name, value in SECURITY_HEADERS.items():
        if name not in _VARYING:
            assert answer.headers.get(name) == value, (answer.request.path_url, name)
    policy = answer.headers["Content-Security-Policy"]
    scripts = re.search(r"script-src ([^;]+)", policy)
    assert scripts is not None
    assert scripts[1] == "'self'"
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "base-uri 'none'" in policy
    assert answer.headers["Referrer-Policy"] in ("no-referrer", "same-origin")


def _links_of(page: str, path: str) -> set[str]:
    """The addresses of the service's own that a page leads to, without what leads within it."""
    found = {urlsplit(urljoin(path, unescape(link))) for link in _LINK.findall(page)}
    own = {one._replace(fragment="").geturl() for one in found if not one.scheme and one.path}
    return {one for one in own if not one.startswith(_NOT_FOLLOWED)}
