"""Cookies and form tokens are signed with HMAC-SHA-256, and with nothing weaker."""

import hashlib
import re

from flask import Flask
from flask.sessions import SecureCookieSessionInterface
from itsdangerous import URLSafeTimedSerializer
from itsdangerous.encoding import base64_decode

from service.web.auth.browsers import SESSION_COOKIE
from service.web.auth.web_sessions import SessionCookies
from tests.service.support.browser import Browser
from tests.service.support.scenes import SECRET_KEY

SHA256_BYTES = 32
FORM = "/settings/report-mails"


def _signature(signed: str) -> bytes:
    return base64_decode(signed.rpartition(".")[2])


def test_the_session_cookie_and_the_form_token_have_signatures_of_sha_256(ada: Browser) -> None:
    page = ada.get("/settings")
    cookie = ada.client.get_cookie(SESSION_COOKIE)
    [token, *_] = re.findall(r'name="csrf_token" value="([^"]+)"', page)
    assert cookie is not None
    assert len(_signature(cookie.value)) == SHA256_BYTES
    assert len(_signature(token)) == SHA256_BYTES


def test_a_session_cookie_that_is_signed_with_sha_1_is_refused(app: Flask, ada: Browser) -> None:
    cookie = ada.client.get_cookie(SESSION_COOKIE)
    assert cookie is not None
    ours, weaker = SessionCookies(), SecureCookieSessionInterface()
    readable, weak = ours.get_signing_serializer(app), weaker.get_signing_serializer(app)
    assert readable is not None
    assert weak is not None
    ada.client.set_cookie(SESSION_COOKIE, weak.dumps(readable.loads(cookie.value)))
    assert ada.client.get("/settings").status_code == 303


def test_a_form_token_that_is_signed_with_sha_1_is_refused(ada: Browser) -> None:
    [token, *_] = re.findall(r'name="csrf_token" value="([^"]+)"', ada.get("/settings"))
    raw = URLSafeTimedSerializer(SECRET_KEY, salt="wtf-csrf-token").loads(token)
    weak = URLSafeTimedSerializer(
        SECRET_KEY, salt="wtf-csrf-token", signer_kwargs={"digest_method": hashlib.sha1}
    )
    for sent, status in ((weak.dumps(raw), 403), (token, 303)):
        form = {"csrf_token": sent, "report_mails": "none"}
        assert ada.client.post(FORM, data=form).status_code == status
