"""Two figures of an account that carry one name for the same days are never written differently.

Of the sample account and a new one. In `make stress`, the sample account has all of its calls.
"""

import re
from decimal import Decimal
from html import unescape
from io import BytesIO

import msgspec
import pytest
import requests

from detectors.wording.figures import usd, whole_usd
from service.cli.account import create_account, mint_read_token, session_of
from service.cli.local_calls import LocalService
from service.cli.sample.account import SEEDED_EMAIL, seed
from service.cli.sign_in_link import make_sign_in_link
from service.models.base import utc_now
from service.models.identity.accounts import find_account
from service.web.auth.browsers import SESSION_COOKIE
from service.web.auth.scopes import SCOPES
from tests.lazily import pypdf
from tests.running import Up
from tests.service.cli.few_calls import make_few_calls
from tests.service.support.figures import Account, Figures, collect

_SECONDS = 60


class Person:
    """An account of the running service, with a browser and a read token."""

    def __init__(self, up: Up, email: str, plan: str = "free") -> None:
        self.service: LocalService = up.service()
        self.base_url, self.email = up.base_url, email
        with session_of(self.service.config) as session:
            account = find_account(session, email) or create_account(session, email, plan)
            session.flush()
            token = mint_read_token(session, account, SCOPES)
            link = make_sign_in_link(session, self.service.config, email)
            session.commit()
        address, _, secret = link.partition("?token=")
        answer = requests.post(address, json={"token": secret}, timeout=_SECONDS)
        self.cookie = {"Cookie": f"{SESSION_COOKIE}={answer.cookies[SESSION_COOKIE]}"}
        self.bearer = {"Authorization": f"Bearer {token}"}

    def page(self, path: str) -> str:
        return self._get(path, self.cookie | {"Accept": "text/html"}).content.decode()

    def api(self, path: str) -> str:
        return self._get(path, self.bearer).content.decode()

    def pdf(self, path: str) -> str:
        pages = pypdf.PdfReader(BytesIO(self._get(path, self.cookie).content)).pages
        return " ".join(" ".join(page.extract_text() for page in pages).split())

    def _get(self, path: str, headers: dict[str, str]) -> requests.Response:
        answer = requests.get(f"{self.base_url}{path}", headers=headers, timeout=_SECONDS)
        assert answer.status_code == 200, (path, answer.status_code)
        return answer

    def collect(self) -> Figures:
        return collect(Account(self.page, self.api), utc_now().date())


def _check(figures: Figures, *names: str, shared: int) -> None:
    assert figures.disagreements == {}
    assert set(names) <= figures.names()
    assert len(figures.shared) >= shared, figures.shared


def _check_sample(person: Person) -> None:
    figures = person.collect()
    _check(
        figures,
        *("spent", "forecast", "budget", "monthly_spend", "estimated", "potential_savings"),
        *("realized_savings", "realized_monthly"),
        shared=12,
    )
    # What a PDF prints has no marks.
    dashboard = person.page("/dashboard")
    found = re.search(r'href="(/audits/([0-9a-f]{32}))">Open report', dashboard)
    assert found is not None
    document = msgspec.json.decode(person.api(f"/api/v1/audits/{found[2]}/report"))["audit"]
    pdf = person.pdf(f"{found[1]}/pdf")
    headline = re.search(r'<h1 class="headline">([^<]*)</h1>', person.page(found[1]))
    assert headline is not None
    for words in (
        unescape(headline[1]),
        usd(Decimal(str(document["total_spend_usd"]))),
        whole_usd(Decimal(str(document["projected_spend_usd"]))),
        whole_usd(Decimal(str(document["estimated_savings_usd"]))),
    ):
        assert words in pdf, words
    # The list of findings has those with dollars.
    shown = len(re.findall('name="finding" value=', person.page("/findings")))
    listed = msgspec.json.decode(person.api("/api/v1/findings"))["findings"]
    assert shown == sum(each["monthly_cost_impact_usd"] > 0 for each in listed) > 0


def test_every_figure_of_the_sample_account_agrees(up: Up) -> None:
    seed(up.service(), make_few_calls)
    _check_sample(Person(up, SEEDED_EMAIL))


@pytest.mark.stress
def test_every_figure_of_the_full_sample_account_agrees(second: Up) -> None:
    """The smaller proof has the calls of three routes."""
    seed(second.service())
    _check_sample(Person(second, SEEDED_EMAIL))


def test_every_figure_of_a_new_account_agrees(up: Up) -> None:
    _check(Person(up, "figures-new@example.org").collect(), "spent", shared=1)
