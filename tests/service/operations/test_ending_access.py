"""Everything that reaches an account can be ended, on its page, by the API and by the command."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest
import requests
from click import Group
from click.testing import CliRunner
from sqlalchemy import select

from service.cli import register
from service.core.tokens import sign_report
from service.models import Account, IngestKey, ReadToken, WebSession
from tests.service.support.live import LiveService
from tests.service.support.oauth_flow import REVOKE, Application, add_application, add_token
from tests.service.support.rotating import add_report
from tests.service.support.scenes import (
    AUDITS,
    INGEST,
    SECRET_KEY,
    Caller,
    Tenant,
    add_browser,
    batch,
    bearer,
)
from tests.worker.support.promises import Note, always_in_full

DEADLINE_SECONDS: Final = 1.0  # of promise 41


@dataclass(frozen=True)
class Reached:
    """An account with one of everything that reaches it."""

    live: LiveService
    tenant: Tenant
    email: str
    owner: Caller
    stolen: Caller
    application: Application
    access_token: str
    audit_id: str

    @classmethod
    def make(cls, live: LiveService) -> "Reached":
        tenant, sessions = live.add_tenant(), live.sessions
        owner, stolen = (add_browser(sessions, tenant.account_id) for _ in range(2))
        application = add_application(sessions, tenant.account_id)
        token = add_token(sessions, application, tenant.account_id)
        with sessions() as session:
            email = session.get_one(Account, tenant.account_id).email
        audit_id = add_report(live, tenant)
        return cls(live, tenant, email, owner, stolen, application, token, audit_id)

    def id_of(self, table: type[IngestKey] | type[ReadToken] | type[WebSession]) -> str:
        """Return the ID of the account's latest row, which for sessions is the stolen one."""
        with self.live.sessions() as session:
            owned = select(table.id).where(table.account_id == self.tenant.account_id)
            return session.scalars(owned.order_by(table.created_at.desc())).first() or ""

    def status(self, path: str, headers: dict[str, str]) -> int:
        response = requests.get(
            f"{self.live.url}{path}", headers=headers, timeout=60, allow_redirects=False
        )
        return response.status_code

    def press(self, path: str) -> bool:
        form = {"csrf_token": self.owner.csrf_token}
        url = f"{self.live.url}{path}"
        sent = requests.post(
            url, data=form, headers=self.owner.headers, timeout=60, allow_redirects=False
        )
        return sent.status_code == 303

    def command(self, kind: str, row_id: str) -> bool:
        group = Group()
        register(group)
        return (
            CliRunner().invoke(group, ["account", "revoke", self.email, kind, row_id]).exit_code
            == 0
        )

    # What an attacker with each of them still gets

    def key(self) -> int:
        url = f"{self.live.url}{INGEST}"
        return requests.post(url, json=batch(), headers=self.tenant.writes, timeout=60).status_code

    def read_token(self) -> int:
        return self.status(AUDITS, self.tenant.reads)

    def granted(self) -> int:
        return self.status(AUDITS, bearer(self.access_token))

    def session(self) -> int:
        return self.status(f"{AUDITS}/{self.audit_id}/status", self.stolen.headers)

    def link(self) -> int:
        return self.status(f"/r/{sign_report(SECRET_KEY, self.audit_id)}", {})

    # How their owner ends them with the API

    def delete_link(self) -> bool:
        url = f"{self.live.url}/api/v1/report-links/{self.audit_id}"
        return requests.delete(url, headers=self.owner.headers, timeout=60).status_code == 200

    def revoke_token(self) -> bool:
        named = {"client_id": self.application.client_id, "client_secret": self.application.secret}
        form = {**named, "token": self.access_token}
        return requests.post(f"{self.live.url}{REVOKE}", data=form, timeout=60).status_code == 200

    def sign_out(self) -> bool:
        url = f"{self.live.url}/auth/logout"
        form = {"csrf_token": self.stolen.csrf_token}
        sent = requests.post(url, data=form, headers=self.stolen.headers, timeout=60)
        return sent.status_code == 200


Way = Callable[[Reached], bool]
# What is ended, the status of what is alive and of what is ended, and the ways to end it.
WAYS: Final[dict[str, tuple[Callable[[Reached], int], tuple[int, int], dict[str, Way]]]] = {
    "key": (
        Reached.key,
        (201, 401),
        {
            "page": lambda it: it.press(f"/developer/ingest-keys/{it.id_of(IngestKey)}/revoke"),
            "command": lambda it: it.command("ingest-key", it.id_of(IngestKey)),
        },
    ),
    "read token": (
        Reached.read_token,
        (200, 401),
        {
            "page": lambda it: it.press(f"/developer/read-tokens/{it.id_of(ReadToken)}/revoke"),
            "command": lambda it: it.command("read-token", it.id_of(ReadToken)),
        },
    ),
    "access token": (
        Reached.granted,
        (200, 401),
        {
            "page": lambda it: it.press(f"/settings/applications/{it.application.id}/withdraw"),
            "API": Reached.revoke_token,
            "command": lambda it: it.command("authorization", it.application.id),
        },
    ),
    "application": (
        Reached.granted,
        (200, 401),
        {
            "page": lambda it: it.press(f"/developer/applications/{it.application.id}/revoke"),
            "command": lambda it: it.command("application", it.application.id),
        },
    ),
    "session": (
        Reached.session,
        (200, 401),
        {
            "page": lambda it: it.press(f"/settings/sessions/{it.id_of(WebSession)}/revoke"),
            "API": Reached.sign_out,
            "command": lambda it: it.command("session", it.id_of(WebSession)),
        },
    ),
    "report link": (
        Reached.link,
        (200, 404),
        {
            "page": lambda it: it.press(f"/settings/report-links/{it.audit_id}/revoke"),
            "API": Reached.delete_link,
            "command": lambda it: it.command("report-link", it.audit_id),
        },
    ),
}


@always_in_full
def test_links_and_tokens_are_dead_within_a_second_of_their_end(
    live: LiveService, note: Note, monkeypatch: pytest.MonkeyPatch, occasion: str
) -> None:
    """By default, when they are asked for next; other tests run beside it, and take seconds."""
    deadline = DEADLINE_SECONDS if occasion == "stress" else 60.0
    url = live.engine.url.render_as_string(hide_password=False)
    for name, value in {"DATABASE_URL": url, "SECRET_KEY": SECRET_KEY}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("REDIS_URL", "redis://")
    monkeypatch.setenv("STORAGE_URL", "file:///nowhere")
    tried, late = 0, []
    for kind, (probe, (alive, dead), ways) in WAYS.items():
        for way, end in ways.items():
            tried, reached = tried + 1, Reached.make(live)
            assert probe(reached) == alive, kind
            assert end(reached), (kind, way)
            ended_at = time.monotonic()
            status = probe(reached)
            if status != dead or time.monotonic() - ended_at > deadline:
                late.append((kind, way, status))
    assert not late
    note("41 links and tokens are dead within 1 s: page, API, command", tried, len(late))
