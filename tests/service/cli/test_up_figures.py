"""Two figures of an account that carry one name for the same days are never written differently.

Of the sample account and a new one. In `make stress`, of one with a single upload and one whose
calls a plan includes, too, and the sample account has all of its calls.
"""

import csv
import io
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from io import BytesIO
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
import requests

from detectors.wording.figures import usd, whole_usd
from service.cli.account import (
    create_account,
    make_sign_in_link,
    mint_ingest_key,
    mint_read_token,
    session_of,
)
from service.cli.local_calls import LocalService
from service.cli.sample.account import SEEDED_EMAIL, seed
from service.models.base import utc_now
from service.models.identity.accounts import find_account
from service.payments import ManualPayment, mark_paid
from service.web.auth.browsers import SESSION_COOKIE
from service.web.auth.scopes import SCOPES
from tests.embedded.processes import wait_until
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

    def audit(self) -> None:
        """Audit the account's calls, after its imports are done."""
        self.wait()
        headers = self.cookie | {"Content-Type": "application/json"}
        address = f"{self.base_url}/api/v1/account-audits"
        requests.post(address, headers=headers, timeout=_SECONDS).raise_for_status()
        self.wait()

    def wait(self) -> None:
        def is_done() -> bool:
            listed = [
                each
                for source in ("", "?source=account")
                for each in msgspec.json.decode(self.api(f"/api/v1/audits{source}"))["audits"]
            ]
            return bool(listed) and all(each["status"] == "done" for each in listed)

        assert wait_until(is_done)

    def choose(self, zone: str) -> None:
        """Choose a time zone as on the page of settings, and wait until its days are shown."""
        with requests.Session() as browser:
            name, _, value = self.cookie["Cookie"].partition("=")
            browser.cookies.set(name, value)
            page = browser.get(f"{self.base_url}/settings", timeout=_SECONDS).text
            token = re.search(r'name="csrf_token" value="([^"]*)"', page)
            assert token is not None
            form = {"csrf_token": token[1], "name": "", "time_zone": zone}
            address = f"{self.base_url}/settings/profile"
            browser.post(address, data=form, timeout=_SECONDS).raise_for_status()
        # A job that runs already doesn't know of it; the sweeper looks every minute.
        assert wait_until(lambda: "Days are UTC until" not in self.page("/spend"), 180)

    def collect(self, zone: str = "") -> Figures:
        today = utc_now().astimezone(ZoneInfo(zone)) if zone else utc_now()
        return collect(Account(self.page, self.api), today.date(), zone)


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
    """In UTC, and by the days of a zone that it chooses then."""
    seed(up.service(), make_few_calls)
    person = Person(up, SEEDED_EMAIL)
    _check_sample(person)
    _check_zones(person, "America/Los_Angeles")


def _check_zones(person: Person, *zones: str) -> None:
    for zone in zones:
        person.choose(zone)
        figures = person.collect(zone)
        _check(figures, "spent", "forecast", "budget", "realized_savings", shared=12)
        local = [each for each in figures.shared if each.period.endswith(f" ({zone})")]
        assert {each.name for each in local} >= {"spent", "forecast"}
        assert len(local) >= 6
    person.choose("UTC")


@pytest.mark.stress
def test_every_figure_of_the_full_sample_account_agrees(second: Up) -> None:
    """The smaller proof has the calls of three routes, and one of the zones."""
    seed(second.service())
    person = Person(second, SEEDED_EMAIL)
    _check_sample(person)
    _check_zones(person, "America/Los_Angeles", "Asia/Kathmandu", "Pacific/Auckland")


def test_every_figure_of_a_new_account_agrees(up: Up) -> None:
    _check(Person(up, "figures-new@example.org").collect(), "spent", shared=1)


@pytest.mark.stress
def test_every_figure_of_an_account_with_one_upload_agrees(up: Up) -> None:
    """The smaller proofs are the sample account, and `test_report_ready.py` for the mail."""
    person = Person(up, "figures-upload@example.org")
    with session_of(person.service.config) as session:
        gift: dict[str, Any] = {"email": person.email, "provider": "comp", "reference": "figures"}
        mark_paid(session, ManualPayment(**gift, amount=Decimal(0), currency="USD"))
        session.commit()
    table = io.StringIO()
    names = ("ts", "provider", "model", "prompt_tokens", "completion_tokens", "tag")
    writer = csv.writer(table)
    writer.writerow(names)
    now = datetime.now(UTC).replace(microsecond=0)
    for hour in range(14 * 24):
        for second in range(3):
            at = now - timedelta(hours=hour, seconds=5 * second)
            writer.writerow((at.isoformat(), "openai", "gpt-5.5", 20_000, 40, "triage"))
    file = {"file": ("usage.csv", table.getvalue())}
    address = f"{person.base_url}/api/v1/audits"
    answer = requests.post(address, files=file, headers=person.cookie, timeout=_SECONDS)
    assert answer.status_code == 201, answer.text
    person.audit()
    _check(person.collect(), "spent", "monthly_spend", "potential_savings", shared=6)
    # The mail about the upload says what its page says.
    page = person.page(f"/audits/{answer.json()['audit_id']}")
    spend = re.search(r'data-figure="monthly_spend"[^>]*>([^<]+)<', page)
    assert spend is not None

    def is_mailed() -> bool:
        mails = (file.read_text() for file in (up.folder / "outbox").glob("*.eml"))
        flat = (" ".join(mail.split()) for mail in mails if f"To: {person.email}" in mail)
        return any(unescape(spend[1]) in mail for mail in flat)

    assert wait_until(is_mailed)


@pytest.mark.stress
def test_every_figure_of_an_account_on_a_plan_agrees(up: Up) -> None:
    """The smaller proof is `tests/worker/calls/test_plan_usage.py`: the same money with a plan."""
    person = Person(up, "figures-plan@example.org", "pro")
    with session_of(person.service.config) as session:
        account = find_account(session, person.email)
        assert account is not None
        key = mint_ingest_key(session, account)
        session.commit()
    call = {"provider": "anthropic", "model": "claude-sonnet-5-5", "completion_tokens": 400}
    records = [
        {
            **call,
            "ts": (utc_now() - timedelta(hours=at)).isoformat(),
            "prompt_tokens": 9_000,
            "billing": "included" if at % 2 else "metered",
        }
        for at in range(200)
    ]
    send: Callable[..., requests.Response] = requests.post
    answer = send(
        f"{person.base_url}/api/v2/ingest",
        json={"records": records},
        headers={"Authorization": f"Bearer {key}"},
        timeout=_SECONDS,
    )
    assert answer.status_code == 201, answer.text
    person.audit()
    _check(person.collect(), "spent", "monthly_spend", "plan_value", shared=5)
