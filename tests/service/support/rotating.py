"""A service whose secrets are in files, and clients that use it while the secrets change."""

import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from uuid import uuid4

import requests
from sqlalchemy import select

from service.config import Config
from service.core.tokens import sign_report
from service.mail.messages import magic_link_url
from service.models import Account, Audit
from service.models.mail.outbox import Mail
from tests.service.payments.providers import PROVIDERS, Provider
from tests.service.support.live import LiveService
from tests.service.support.scenes import INGEST, Tenant, batch
from tests.worker.support.waiting import wait_until

TIMEOUT = 20
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/2010 Firefox/140.0"
_CSRF = re.compile(r'name="csrf_token"[^>]* value="([^"]+)"')


@dataclass
class Rotating:
    """The service, its secret files, and what its users hold."""

    live: LiveService
    folder: Path
    tenant: Tenant
    report_id: str
    person: tuple[dict[str, str], dict[str, str]] = ({}, {})  # the headers, and an open form
    links: list[str] = field(default_factory=list)
    admin_token: str = ""
    signing: dict[str, str] = field(default_factory=dict)
    tried: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    pause: float = 0.05  # of each client between two requests

    def path(self, name: str) -> Path:
        return self.folder / name

    @property
    def environment(self) -> dict[str, str]:
        """The settings of every process of this service."""
        named = {f"{path.name.upper()}_FILE": str(path) for path in self.folder.iterdir()}
        url = self.live.engine.url.render_as_string(hide_password=False)
        rest = {"REDIS_URL": "redis://", "STORAGE_URL": self.live.blobs.as_uri()}
        return {**named, **rest, "DATABASE_URL": url, "BASE_URL": self.live.url}

    @property
    def config(self) -> Config:
        """What another process, such as the mail worker, would read now."""
        return Config.from_environment(self.environment)

    def reload(self) -> None:
        """Replace the processes that serve, one generation by the next, as a deploy does."""
        old = self._processes()
        self.live.process.send_signal(signal.SIGHUP)

        def is_renewed() -> bool:
            now = self._processes()
            return len(now) >= len(old) and not now & old

        wait_until(is_renewed, 60)
        # Once each process has answered, it is used by the clients, too.
        time.sleep(0.5)

    def _processes(self) -> set[str]:
        """The IDs of those that serve, from the kernel, which psutil would search for."""
        pid = self.live.process.pid
        return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())

    # What users do

    def sign_in(self) -> bool:
        """Ask for a link, let the mail job write it, follow it, and load a form."""
        email = f"{uuid4().hex}@example.org"
        asked = requests.post(
            f"{self.live.url}/auth/magic-link", json={"email": email}, timeout=TIMEOUT
        )
        assert asked.status_code == 200
        with self.live.sessions() as session:
            found = session.scalars(select(Mail.parameters).where(Mail.recipient == email)).one()
        link = magic_link_url(self.config, found["link_id"], found.get("key_id"))
        # The link signs in the browser that asked for it; over HTTP, cookies are sent by hand.
        asking = {"User-Agent": BROWSER, "Cookie": _cookies(asked)}
        signed_in = requests.get(link, headers=asking, timeout=TIMEOUT)
        assert signed_in.status_code == 200, signed_in.status_code
        browser = {"Cookie": _cookies(signed_in)}
        page = requests.get(f"{self.live.url}/settings", headers=browser, timeout=TIMEOUT)
        token = _CSRF.search(page.text)
        assert token is not None
        self.person = browser, {"csrf_token": token[1], "report_mails": "each"}
        return True

    @property
    def browser(self) -> dict[str, str]:
        return self.person[0]

    def add_link(self) -> str:
        """What the job that announces a report mails now."""
        self.links.append(f"/r/{sign_report(self.config.secret_key, self.report_id)}")
        return self.links[-1]

    def status_of(self, path: str, **headers: str) -> int:
        answer = requests.get(
            f"{self.live.url}{path}", headers=headers, timeout=TIMEOUT, allow_redirects=False
        )
        return answer.status_code

    def clients(self) -> dict[str, Callable[[], bool]]:
        return {
            "report link": lambda: all(self.status_of(link) == 200 for link in list(self.links)),
            "signed-in page": lambda: self.status_of("/settings/sessions", **self.browser) == 200,
            "open form": self._submit,
            "sign-in": self.sign_in,
            "admin": lambda: self.status_of("/admin", **{"X-Admin-Token": self.admin_token}) == 200,
            "batch": self._ingest,
            **{f"{each.name} event": self._delivering(each) for each in PROVIDERS},
        }

    def _submit(self) -> bool:
        address, (headers, form) = f"{self.live.url}/settings/report-mails", self.person
        sent = requests.post(
            address, data=form, headers=headers, timeout=TIMEOUT, allow_redirects=False
        )
        return sent.status_code == 303

    def _ingest(self) -> bool:
        address, headers = f"{self.live.url}{INGEST}", self.tenant.writes
        sent = requests.post(address, json=batch(), headers=headers, timeout=TIMEOUT)
        return sent.status_code == 201

    def _delivering(self, provider: Provider) -> Callable[[], bool]:
        return lambda: self.deliver(provider, self.signing[provider.name]) == 200

    def deliver(self, provider: Provider, secret: str) -> int:
        document = provider.paid(self.tenant.account_id)
        body, headers = provider.signed(document, secret=secret)
        address = f"{self.live.url}{provider.path}"
        return requests.post(address, data=body, headers=headers, timeout=TIMEOUT).status_code

    @contextmanager
    def traffic(self) -> Iterator[None]:
        """Let every kind of client ask again and again until the block ends."""
        done = Event()
        threads = [
            Thread(target=self._ask, args=(name, client, done))
            for name, client in self.clients().items()
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            done.set()
            for thread in threads:
                thread.join()

    def wait_for_clients(self) -> None:
        """Wait until no client waits for an answer to what it sent before this."""
        before = Counter(self.tried)
        names = self.clients().keys()
        wait_until(lambda: all(self.tried[name] >= before[name] + 2 for name in names), 60)

    def _ask(self, name: str, client: Callable[[], bool], done: Event) -> None:
        while not done.is_set():
            try:
                is_right = client()
            except (requests.RequestException, AssertionError) as error:
                is_right = False
                self.failed.append(f"{name}: {error!r}"[:300])
            else:
                if not is_right:
                    self.failed.append(name)
            self.tried[name] += 1
            done.wait(self.pause)


def _cookies(response: requests.Response) -> str:
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in response.cookies)


def add_report(live: LiveService, tenant: Tenant) -> str:
    with live.sessions() as session:
        assert session.get(Account, tenant.account_id) is not None
        audit = Audit(account_id=tenant.account_id, source="ingest", blob_key="raw/x.jsonl")
        session.add(audit)
        session.commit()
        return audit.id
