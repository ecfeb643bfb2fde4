"""A signed-in browser: it keeps its cookie and sends forms with CSRF tokens."""

import re
from html import unescape

from flask import Flask
from werkzeug.test import TestResponse

from service.models import Account
from service.models.identity.accounts import find_account
from service.web.auth.browsers import SESSION_COOKIE
from tests.service.support.scenes import Sessions, sign_in


class Browser:
    """One person's. Each form is sent with the token that its page had."""

    def __init__(self, app: Flask, sessions: Sessions, email: str) -> None:
        self.client = app.test_client()
        self.email = email
        value = sign_in(sessions, email)["Cookie"].partition("=")[2]
        self.client.set_cookie(SESSION_COOKIE, value)
        with sessions() as session:
            account = find_account(session, email)
            assert isinstance(account, Account)
            self.account_id = account.id

    def get(self, path: str, status: int = 200) -> str:
        answer = self.client.get(path)
        assert answer.status_code == status, answer.get_data(as_text=True)
        return answer.get_data(as_text=True)

    def post(self, page: str, action: str, /, **fields: str | list[str]) -> TestResponse:
        """Send the form of a page that goes to this address."""
        text = self.get(page)
        assert f'action="{action}"' in text, text
        [token, *_] = re.findall(r'name="csrf_token" value="([^"]+)"', text)
        return self.client.post(action, data={"csrf_token": token, **fields})

    def act(self, page: str, action: str, /, **fields: str | list[str]) -> TestResponse:
        """The same for an address that no page of this person's has."""
        [token, *_] = re.findall(r'name="csrf_token" value="([^"]+)"', self.get(page))
        return self.client.post(action, data={"csrf_token": token, **fields})


def words_of(page: str) -> str:
    """A page's text on one line."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def codes_of(page: str) -> list[str]:
    """What stands in the page's blocks of code."""
    return [unescape(one) for one in re.findall(r"<code>([^<]*)</code>", page)]
