"""Load and submit forms like a browser without JavaScript, with cookie and token."""

import re
from dataclasses import dataclass

from flask.testing import FlaskClient

from service.web.auth.browsers import SESSION_COOKIE


@dataclass(frozen=True)
class Form:
    """A loaded form: where it is sent to, its token, and the headers to send it with."""

    action: str
    token: str
    headers: dict[str, str]


def load_form(client: FlaskClient, path: str, form_id: str, headers: dict[str, str]) -> Form:
    """The form with this id on a page; the client has no cookies of its own."""
    response = client.get(path, headers=headers)
    assert response.status_code == 200
    page = response.get_data(as_text=True)
    form = page[page.index(f'<form id="{form_id}"') :]
    action = re.search(r'action="([^"]+)"', form)
    token = re.search(r'name="csrf_token" value="([^"]+)"', form)
    assert action is not None
    assert token is not None
    cookie = re.search(rf"{SESSION_COOKIE}=[^;]+", response.headers["Set-Cookie"])
    assert cookie is not None
    return Form(action[1].replace("&amp;", "&"), token[1], {"Cookie": cookie[0]})
