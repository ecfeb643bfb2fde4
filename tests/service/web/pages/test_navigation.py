"""What every page shows about its visitor."""

import re
from collections.abc import Callable
from pathlib import Path

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import create_engine
from sqlalchemy.orm import sessionmaker

from service.web.auth.browsers import SESSION_COOKIE
from tests.cases import each_case
from tests.service.support.scenes import Sessions
from tests.service.support.uploads import Person
from tests.service.web.pages.words import words

PUBLIC = ("/", "/upload", "/sign-in", "/sample", "/nowhere")


@each_case("path", PUBLIC)
def test_a_public_page_sends_no_queries_for_a_signed_out_visitor(
    client: FlaskClient, statements: list[str], path: str
) -> None:
    page = words(client.get(path))
    assert "Sign in" in page
    assert "Overview" not in page
    assert statements == []


def test_templates_name_files_that_exist_without_building_their_paths(app: Flask) -> None:
    assert app.static_folder is not None
    assert app.template_folder is not None
    templates = "".join(file.read_text() for file in Path(app.template_folder).rglob("*.html"))
    named = set(re.findall(r"static\['([^']+)'\]", templates))
    assert "/static/" not in templates
    assert "tallystick.css" in named
    assert [name for name in named if not Path(app.static_folder, name).is_file()] == []
    assert "url_for('static'" not in templates  # five of them took a twentieth of a page's time


@each_case("path", PUBLIC)
def test_signed_in_visitors_find_their_pages_everywhere(
    client: FlaskClient, person: Person, path: str
) -> None:
    response = client.get(path, headers=person.headers)
    page = words(response)
    assert (
        "Overview Spend Plan usage Findings Bill Imports Compare Go to… ⌘K Connections Developer"
        in page
    )
    assert f"{person.email} Free plan" in page
    assert "Billing Sign out" in page
    # The next visitor of a shared browser or proxy gets a page of their own.
    assert "Cookie" in response.headers["Vary"]


def test_the_current_page_is_marked(client: FlaskClient, person: Person) -> None:
    page = client.get("/dashboard", headers=person.headers).get_data(as_text=True)
    assert '<a href="/dashboard" aria-current="page">' in page
    assert page.count("aria-current") == 1


@each_case(
    ("path", "marked"),
    [
        ("/settings/connections", '<a href="/settings/connections" aria-current="page">'),
        ("/settings/connections/x", '<a href="/settings/connections" aria-current="true">'),
        ("/settings/budgets", '<a href="/settings" aria-current="true">'),
        ("/bill/savings", '<a href="/bill" aria-current="true">'),
        ("/plan-usage", '<a href="/plan-usage" aria-current="page">'),
        ("/settings/prices", '<a href="/settings" aria-current="true">'),
    ],
)
def test_a_page_below_another_marks_that_one_alone(
    client: FlaskClient, person: Person, path: str, marked: str
) -> None:
    page = client.get(path, headers=person.headers).get_data(as_text=True)
    rail = page[page.index('<div class="rail">') : page.index("<main")]
    assert marked in rail
    assert rail.count("aria-current") == 1


def test_an_unavailable_database_is_reported_to_signed_in_visitors(
    share_app: Callable[..., Flask], person: Person
) -> None:
    app = share_app()
    app.extensions["session_factory"] = _sessions_of_a_database_that_is_away()
    client = app.test_client(use_cookies=False)
    assert SESSION_COOKIE in person.headers["Cookie"]
    response = client.get("/dashboard", headers=person.headers)
    assert response.status_code == 503
    assert response.mimetype == "text/html"
    assert "Retry-After" in response.headers
    assert client.get("/", headers=person.headers).status_code == 200


def _sessions_of_a_database_that_is_away() -> Sessions:
    return sessionmaker(create_engine("postgresql+psycopg2://nobody@/none?host=/nowhere"))
