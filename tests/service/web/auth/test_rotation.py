"""With a new SECRET_KEY, old signatures stay valid until the old key is removed."""

import re
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import select

from service.core.tokens import sign_report
from service.mail.messages import magic_link_url
from service.models import Audit
from service.models.mail.outbox import Mail
from tests.service.payments.providers import PROVIDERS, Provider
from tests.service.support.scenes import ADMIN_TOKEN, SECRET_KEY, Sessions, Tenant, sign_in

NEW_KEY = "a-new-secret-key-of-32-characters-or-more"
OLD_KEY = "the-old-secret-key-of-32-characters-or-more"


def _link(sessions: Sessions, tenant: Tenant, key: str) -> str:
    with sessions() as session:
        audit = Audit(account_id=tenant.account_id, source="ingest", blob_key="raw/x.jsonl")
        session.add(audit)
        session.commit()
        return f"/r/{sign_report(key, audit.id)}"


def test_report_links_outlive_a_rotation_while_the_old_key_is_kept(
    share_app: Callable[..., Flask], sessions: Sessions, tenant: Tenant
) -> None:
    link = _link(sessions, tenant, OLD_KEY)
    kept = share_app(secret_key=NEW_KEY, secret_key_fallbacks=f"{'x' * 32} {OLD_KEY}")
    assert kept.test_client().get(link).status_code == 200
    assert kept.test_client().get(_link(sessions, tenant, NEW_KEY)).status_code == 200
    dropped = share_app(secret_key=NEW_KEY)
    assert dropped.test_client().get(link).status_code == 404


def test_a_key_that_is_not_kept_signs_nothing(
    share_app: Callable[..., Flask], sessions: Sessions, tenant: Tenant
) -> None:
    kept = share_app(secret_key=NEW_KEY, secret_key_fallbacks=OLD_KEY)
    assert kept.test_client().get(_link(sessions, tenant, SECRET_KEY)).status_code == 404


def test_a_form_that_was_open_is_accepted_while_the_old_key_is_kept(
    share_app: Callable[..., Flask], sessions: Sessions
) -> None:
    headers = sign_in(sessions, "open@example.org", OLD_KEY)
    old = share_app(secret_key=OLD_KEY).test_client(use_cookies=False)
    page = old.get("/settings", headers=headers)
    headers = {"Cookie": page.headers["Set-Cookie"].partition(";")[0]}  # with the form's secret
    token = re.search(r'name="csrf_token" value="([^"]+)"', page.get_data(as_text=True))
    assert token is not None
    fields = {"csrf_token": token[1], "report_mails": "none"}
    for settings, status in (({"secret_key_fallbacks": OLD_KEY}, 303), ({}, 403)):
        client = share_app(secret_key=NEW_KEY, **settings).test_client(use_cookies=False)
        sent = client.post("/settings/report-mails", data=fields, headers=headers)
        assert sent.status_code == status


@pytest.mark.parametrize("mailed_by", ["a process with the new key", "one with both keys swapped"])
def test_a_sign_in_mail_that_waited_has_a_link_that_works(
    share_app: Callable[..., Flask], sessions: Sessions, mailed_by: str
) -> None:
    asked = share_app(secret_key=OLD_KEY, secret_key_fallbacks=NEW_KEY).test_client()
    assert asked.post("/auth/magic-link", json={"email": "w@example.org"}).status_code == 200
    with sessions() as session:
        parameters = session.scalars(select(Mail.parameters)).one()
    keys = {"secret_key": NEW_KEY, "secret_key_fallbacks": OLD_KEY}
    if mailed_by.startswith("one"):
        keys = {"secret_key": OLD_KEY, "secret_key_fallbacks": NEW_KEY}
    app = share_app(**keys)
    link = magic_link_url(app.extensions["config"], parameters["link_id"], parameters["key_id"])
    assert app.test_client().get(link).status_code == 200


def test_two_admin_tokens_open_the_administration_while_one_replaces_the_other(
    share_app: Callable[..., Flask],
) -> None:
    new = "another-administrators-token-of-32-or-more"
    client = share_app(admin_token=f"{new} {ADMIN_TOKEN}").test_client()
    tried = {new: 200, ADMIN_TOKEN: 200, f"{new} {ADMIN_TOKEN}": 404, "": 404, " ": 404}
    for token, status in tried.items():
        assert client.get("/admin", headers={"X-Admin-Token": token}).status_code == status


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
def test_two_secrets_of_a_payment_provider_are_accepted(
    share_app: Callable[..., Flask], provider: Provider
) -> None:
    new = f"{provider.secret}_new"
    app = share_app(**{f"{provider.name}_webhook_secret": f"{provider.secret} {new}"})
    tried = {provider.secret: 200, new: 200, f"{provider.secret} {new}": 400, "": 400}
    for secret, status in tried.items():
        body, headers = provider.signed(provider.paid(), secret=secret)
        sent = app.test_client().post(provider.path, data=body, headers=headers)
        assert sent.status_code == status
