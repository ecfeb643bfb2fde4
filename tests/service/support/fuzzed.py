"""The target of hostile requests: the service, and an account with some of everything."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests

from detectors.contract import Report
from service.core.tokens import sign_report
from service.models import Credit
from service.reports.sample import get_sample_report
from tests.service.support.described import DOCUMENTS, merge
from tests.service.support.live import LiveService
from tests.service.support.oauth_flow import (
    Application,
    add_application,
    add_code,
    add_token,
    email_of,
)
from tests.service.support.scenes import (
    ADMIN_TOKEN,
    INGEST,
    SECRET_KEY,
    Caller,
    Tenant,
    add_browser,
    add_link,
    batch,
    bearer,
)
from tests.service.web.pages.scenes import add_run

CREDENTIALS = (
    *("none", "ingest key", "read token", "access token", "session", "admin", "oauth client"),
)


@dataclass(frozen=True)
class Target:
    """The service, one account's secrets there, and values that name something of it."""

    service: LiveService
    tenant: Tenant
    application: Application
    access_token: str
    known: Mapping[str, Sequence[Any]]

    @property
    def url(self) -> str:
        return self.service.url

    def document(self) -> dict[str, Any]:
        """Return what both documents describe."""
        headers = {"X-Admin-Token": ADMIN_TOKEN}
        public, admin = (
            requests.get(f"{self.url}{path}", headers=headers, timeout=60).json()
            for path in DOCUMENTS
        )
        return merge(public, admin)

    def caller(self, who: str) -> Caller:
        """With one header each. A browser is a new one every time."""
        if who == "session":
            return add_browser(self.service.sessions, self.tenant.account_id)
        pair = f"{self.application.client_id}:{self.application.secret}".encode()
        headers = {
            "none": {"X-Nobody": "nobody"},
            "ingest key": self.tenant.writes,
            "read token": self.tenant.reads,
            "access token": bearer(self.access_token),
            "admin": {"X-Admin-Token": ADMIN_TOKEN},
            "oauth client": {"Authorization": f"Basic {base64.b64encode(pair).decode()}"},
        }
        return Caller(headers[who])


def fill(service: LiveService) -> Target:
    tenant = service.add_tenant()
    application = add_application(service.sessions, tenant.account_id)
    token = add_token(service.sessions, application, tenant.account_id)
    known = {
        **_add_audits(service, tenant),
        **_asked_by(service, application, tenant),
        **_written_by(service, tenant),
    }
    return Target(service, tenant, application, token, known)


def _add_audits(service: LiveService, tenant: Tenant) -> dict[str, list[str]]:
    """One that waits, one that is done, and credits for more."""
    sent = requests.post(
        f"{service.url}{INGEST}", json=batch(), headers=tenant.writes, timeout=60
    ).json()
    report = Report.from_json(get_sample_report())
    done = add_run(service.sessions, tenant.account_id, report)
    with service.sessions() as session:
        session.add_all(Credit(account_id=tenant.account_id) for _ in range(3))
        session.commit()
    return {
        "path.audit_id": [sent["audit_id"], done],
        "path.token": [sign_report(SECRET_KEY, done)],
        "query.finding": [report.findings[0].id],
    }


def _asked_by(
    service: LiveService, application: Application, tenant: Tenant
) -> dict[str, list[Any]]:
    codes = [add_code(service.sessions, application, tenant.account_id) for _ in range(20)]
    tokens = [add_token(service.sessions, application, tenant.account_id) for _ in range(20)]
    asked = {f"query.{name}": [value] for name, value in application.asks().items()}
    redeemed = {f"body.{name}": [value] for name, value in application.redeems("").items()}
    return {**asked, **redeemed, "body.code": codes, "body.token": tokens}


def _written_by(service: LiveService, tenant: Tenant) -> dict[str, list[Any]]:
    """What people and an administrator send."""
    email = email_of(service.sessions, tenant.account_id)
    return {
        "query.token": [add_link(service.sessions, email) for _ in range(5)],
        "header.x-user-email": [email],
        "body.email": [email],
        "body.provider": ["comp"],
        "body.amount": [0],
        "body.file": ["ts,provider,model,prompt_tokens,completion_tokens\n2026-03-01,a,b,1,1\n"],
    }
