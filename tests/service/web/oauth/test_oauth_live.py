"""OAuth on the running web process: common client libraries, and concurrent redemptions."""

import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from requests_oauthlib import OAuth2Session as RequestsSession
from sqlalchemy import select, text

from service.core.tokens import Kind, find_hash
from service.models import OAuthCode, OAuthToken
from tests.service.support.live import LiveService
from tests.service.support.oauth_flow import (
    AUTHORIZE,
    TOKEN,
    Application,
    add_application,
    add_code,
    add_token,
    consent_live,
    email_of,
)
from tests.service.support.scenes import AUDITS, Tenant, add_browser, bearer
from tests.worker.support.promises import Note, at_both_scales, scaled
from tests.worker.support.waiting import wait_until

SCOPE = "read:audits read:findings"


@pytest.fixture
def person(live: LiveService) -> Tenant:
    return live.add_tenant()


@pytest.fixture
def cookie(live: LiveService, person: Tenant) -> dict[str, str]:
    return live.sign_in(email_of(live.sessions, person.account_id))


@pytest.fixture
def application(live: LiveService) -> Application:
    return add_application(live.sessions, live.add_tenant().account_id)


@pytest.fixture(autouse=True)
def _plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both libraries want TLS, which a test on the loopback has not."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")


def _is_read_by(live: LiveService, token: str) -> bool:
    return requests.get(f"{live.url}{AUDITS}", headers=bearer(token), timeout=60).ok


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_authlibs_client_completes_the_flow(
    live: LiveService, application: Application, cookie: dict[str, str], method: str
) -> None:
    client = AuthlibSession(
        application.client_id,
        application.secret,
        token_endpoint_auth_method=method,
        revocation_endpoint_auth_method=method,
        scope=SCOPE,
        redirect_uri=application.redirect_uri,
        code_challenge_method="S256",
    )
    verifier = secrets.token_urlsafe(48)
    address, state = client.create_authorization_url(
        f"{live.url}{AUTHORIZE}", code_verifier=verifier
    )
    back = consent_live(live.url, address, cookie)
    token = client.fetch_token(
        f"{live.url}{TOKEN}", authorization_response=back, state=state, code_verifier=verifier
    )
    assert token["scope"] == SCOPE
    assert client.get(f"{live.url}{AUDITS}").json()["audits"] == []
    ended = client.revoke_token(  # type: ignore[no-untyped-call]
        f"{live.url}/oauth/revoke", token["access_token"]
    )
    assert ended.ok
    assert not _is_read_by(live, token["access_token"])


def test_requests_oauthlib_completes_the_flow(
    live: LiveService, application: Application, cookie: dict[str, str]
) -> None:
    client = RequestsSession(
        application.client_id, redirect_uri=application.redirect_uri, scope=SCOPE, pkce="S256"
    )
    address, _ = client.authorization_url(f"{live.url}{AUTHORIZE}")
    back = consent_live(live.url, address, cookie)
    token = client.fetch_token(
        f"{live.url}{TOKEN}", authorization_response=back, client_secret=application.secret
    )
    assert token["token_type"] == "Bearer"
    assert client.get(f"{live.url}{AUDITS}").json()["audits"] == []


@at_both_scales
def test_fifty_redemptions_at_once_issue_at_most_one_token(
    live: LiveService, application: Application, person: Tenant, share: float, note: Note
) -> None:
    """Ten codes, each redeemed fifty times at once. Reuse also ends what the first one got."""
    rounds, given, lost = scaled(10, share), 0, 0
    for _ in range(rounds):
        code = add_code(live.sessions, application, person.account_id)
        form = application.redeems(code)
        with ThreadPoolExecutor(50) as pool:
            answers = list(
                pool.map(
                    lambda _: requests.post(f"{live.url}{TOKEN}", data=form, timeout=60),  # noqa: B023
                    range(50),
                )
            )
        granted = [one.json()["access_token"] for one in answers if one.status_code == 200]
        lost += len(granted) > 1
        lost += sum(one.status_code not in (200, 400, 503) for one in answers)
        lost += any(_is_read_by(live, token) for token in granted)
        given += len(granted)
    note("29 50 redemptions of one code at once give out at most one token", rounds * 50, lost)
    assert given > 0


def test_two_concurrent_redemptions_of_an_unused_code_leave_no_token(
    live: LiveService, application: Application, person: Tenant
) -> None:
    """One of them is a thief, and nobody knows which."""
    code = add_code(live.sessions, application, person.account_id)
    form = application.redeems(code)
    with live.sessions() as holder, ThreadPoolExecutor(2) as pool:
        named = OAuthCode.secret_hash == find_hash(Kind.AUTHORIZATION_CODE, code)
        holder.execute(select(OAuthCode.id).where(named).with_for_update())
        asked = [
            pool.submit(requests.post, f"{live.url}{TOKEN}", data=form, timeout=60)
            for _ in range(2)
        ]
        wait_until(lambda: _count_waiting(live) == len(asked), 20)
        holder.rollback()
        answers = [one.result() for one in asked]
    assert sorted(one.status_code for one in answers) == [200, 400]
    [granted] = [one for one in answers if one.ok]
    assert not _is_read_by(live, granted.json()["access_token"])


def _count_waiting(live: LiveService) -> int:
    """Count the connections that wait for a lock, in a new transaction each time."""
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    with live.engine.connect() as connection:
        return connection.scalar(waiting) or 0


def test_withdrawing_while_redeeming_leaves_no_token(
    live: LiveService, application: Application, person: Tenant
) -> None:
    """Whichever comes first: what is withdrawn does not read."""
    from service.models.access.oauth import withdraw

    def take_back() -> None:
        with live.sessions() as session:
            withdraw(session, person.account_id, application.id)
            session.commit()

    for _ in range(10):
        form = application.redeems(add_code(live.sessions, application, person.account_id))
        with ThreadPoolExecutor(2) as pool:
            redeemed = pool.submit(requests.post, f"{live.url}{TOKEN}", data=form, timeout=60)
            pool.submit(take_back).result()
        answer = redeemed.result()
        assert answer.status_code in (200, 400), answer.text
        if answer.ok:
            assert not _is_read_by(live, answer.json()["access_token"])
    with live.sessions() as session:
        assert session.query(OAuthToken).filter_by(application_id=application.id).count() == 0


def test_revoking_an_application_ends_every_token_at_once(live: LiveService) -> None:
    """Everybody's, on every process of the service, from the answer on."""
    owner, people = live.add_tenant(), [live.add_tenant() for _ in range(3)]
    application = add_application(live.sessions, owner.account_id)
    tokens = [add_token(live.sessions, application, one.account_id) for one in people]
    code = add_code(live.sessions, application, people[0].account_id)
    assert all(_is_read_by(live, token) for token in tokens)
    browser = add_browser(live.sessions, owner.account_id)
    revoked = requests.post(
        f"{live.url}/developer/applications/{application.id}/revoke",
        data={"csrf_token": browser.csrf_token},
        headers=browser.headers,
        allow_redirects=False,
        timeout=10,
    )
    assert revoked.status_code == 303
    assert not any(_is_read_by(live, token) for token in tokens * 4)
    redeemed = requests.post(f"{live.url}{TOKEN}", data=application.redeems(code), timeout=60)
    assert (redeemed.status_code, redeemed.json()["error"]) == (401, "invalid_client")
