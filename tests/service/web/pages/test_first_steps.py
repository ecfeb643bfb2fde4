"""The first minutes: a key made in place, and a page that waits for the first call."""

import re
from html import unescape

from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from service.models import Account
from service.models.base import utc_now
from tests.service.support.browser import words_of
from tests.service.support.scenes import INGEST, Sessions, Tenant, sign_in
from tests.service.support.spend import add_spend, spend_line


def test_a_key_is_made_in_place_and_its_command_works(
    client: FlaskClient, tenant: Tenant, sessions: Sessions, db_session: Session
) -> None:
    with sessions() as session:
        email = session.get_one(Account, tenant.account_id).email
    headers = sign_in(sessions, email)
    first = client.get("/dashboard", headers=headers)
    token = re.search('name="csrf_token" value="([^"]+)"', first.text)
    assert token is not None
    assert "Waiting for the first call…" in first.text
    # Without a new key, each language reads it from its environment.
    shell, powershell, node = (
        unescape(
            first.text.partition(f"<summary>{language}</summary>")[2].partition("</details>")[0]
        )
        for language in ("Shell", "PowerShell", "Node.js")
    )
    assert '"Authorization: Bearer $INGEST_KEY"' in shell
    assert '"Bearer $env:INGEST_KEY"' in powershell
    assert "`Bearer ${process.env.INGEST_KEY}`" in node
    cookie = first.headers["Set-Cookie"].partition(";")[0]
    sent = {"headers": {"Cookie": cookie}, "data": {"csrf_token": token[1]}}
    page = client.post("/dashboard/key", **sent).text
    [key] = set(re.findall(r"ik_\w+", page.partition("Copy your key now")[2]))
    for language in ("Shell", "PowerShell", "Python", "Node.js"):
        assert f"<summary>{language}</summary>" in page
    body = re.search(r"-d '([^']+)'", words_of(page))
    assert body is not None
    sent_headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    assert client.post(INGEST, data=body[1], headers=sent_headers).status_code == 201
    assert key not in client.get("/dashboard", headers=headers).text
    assert client.get("/dashboard/first", headers=headers).get_json() == {"is_ready": False}
    add_spend(db_session, tenant.account_id, spend_line(utc_now().date()))
    assert client.get("/dashboard/first", headers=headers).get_json() == {"is_ready": True}
