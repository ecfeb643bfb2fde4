"""/settings/prices: an account's aliases and negotiated rates, readable by their owner only."""

from io import BytesIO
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from detectors import PriceBook
from detectors.contract import UnpricedModel
from service.models import AuditSettings
from tests.cases import each_case
from tests.service.support.documents import make_report
from tests.service.support.scenes import Sessions
from tests.service.support.uploads import Person
from tests.service.web.pages.forms import load_form
from tests.service.web.pages.scenes import add_run
from tests.service.web.pages.words import words

PATH = "/settings/prices"
TERMS = """# the contract of 2026
[discounts]
anthropic = 0.12

[aliases.azure]
"prod-*" = { provider = "azure", model = "gpt-4o" }
"""
MANY = "".join(f'x{number} = ["azure", "gpt-4o"]\n' for number in range(1_001))
SHORT = "".join(f'{number:x}=["azure","gpt-4o"]\n' for number in range(1_000))
WRITTEN = TERMS.partition("\n")[2]


def send(client: FlaskClient, person: Person, form_id: str, **fields: Any) -> TestResponse:
    form = load_form(client, PATH, form_id, person.headers)
    return client.post(form.action, headers=form.headers, data={"csrf_token": form.token, **fields})


def stored(session: Session) -> str:
    return session.scalars(select(AuditSettings.price_terms)).one()


def test_terms_are_saved_as_we_write_them_and_exported(
    client: FlaskClient, person: Person, db_session: Session
) -> None:
    answer = send(client, person, "terms-form", terms=TERMS.replace("\n", "\r\n"))
    assert (answer.status_code, answer.location) == (303, f"{PATH}?saved=")
    assert stored(db_session) == WRITTEN
    page = client.get(PATH, headers=person.headers).text
    assert "the contract of 2026" not in page
    assert "anthropic = 0.12" in page
    file = client.get(f"{PATH}/export", headers=person.headers)
    assert file.get_data(as_text=True) == WRITTEN
    assert "attachment" in file.headers["Content-Disposition"]
    send(client, person, "terms-form", terms=WRITTEN)
    assert stored(db_session) == WRITTEN


def test_a_file_is_imported_in_place_of_the_text(
    client: FlaskClient, person: Person, db_session: Session
) -> None:
    file = (BytesIO(TERMS.encode()), "prices.toml")
    assert send(client, person, "terms-form", terms="", file=file).status_code == 303
    assert stored(db_session) == WRITTEN


@each_case(
    ("terms", "problem"),
    [
        ("[discounts", "This is not TOML"),
        ("[discount]", "Line 1: unknown 'discount'; use discounts, overrides, aliases"),
        ("[discounts]\nopenay = 0.1", "this provider is not in the price book"),
        ('[aliases.azure]\nx = { model = "gpt-4o" }', "expected provider and model"),
        ("#" + "a" * 40_000, "has over 40,000 characters"),
        ("[aliases.azure]\n" + SHORT, "As we store them, these prices have over 40,000"),
        ('[discounts]\nopenai = "1e-300000000"', "Line 2: discounts.openai: expected a share"),
        ("a." * 15_000 + "b = 1", "Line 1: expected a key of at most 8 parts"),
        (f"[discounts]\nopenai = {'9' * 5_000}", "Line 2: expected a name or a number"),
        ("x = " + "[" * 10_000, "Line 1: expected at most 8 brackets"),
        ("[aliases.a]\n" + MANY, "Expected at most 1,000 prices and aliases"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_saved(
    client: FlaskClient, person: Person, db_session: Session, terms: str, problem: str
) -> None:
    answer = send(client, person, "terms-form", terms=terms)
    assert answer.status_code == 422
    assert problem in words(answer)
    assert db_session.scalars(select(AuditSettings)).all() == []


def test_prices_that_no_longer_apply_are_named_on_the_page(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    typed = '[discounts]\nopenai = 0.1\n[aliases.azure]\nprod = ["azure", "gpt-gone"]\n'
    with sessions() as session:
        session.add(
            AuditSettings(account_id=person.account_id, price_terms=typed, terms_excluded=2)
        )
        session.commit()
    page = words(client.get(PATH, headers=person.headers))
    assert "Audits exclude this price: Line 4: aliases.azure.prod:" in page
    assert "We removed 2 prices that we can no longer read" in page
    send(client, person, "terms-form", terms="[discounts]\nopenai = 0.1")
    page = words(client.get(PATH, headers=person.headers))
    assert "exclude" not in page
    assert "We removed" not in page


def test_a_file_that_is_no_text_is_refused(client: FlaskClient, person: Person) -> None:
    answer = send(client, person, "terms-form", file=(BytesIO(b"\xff\xfe\x00"), "x.toml"))
    assert answer.status_code == 422
    assert "This file isn't UTF-8 text." in words(answer)


def test_a_price_for_one_model_joins_the_terms(
    client: FlaskClient, person: Person, db_session: Session
) -> None:
    send(client, person, "terms-form", terms=TERMS)
    alias = {"provider": "azure", "model": "chat", "as_provider": "azure", "as_model": "gpt-4o"}
    assert send(client, person, "set-price-form", **alias).status_code == 303
    rates = {"provider": "acme", "model": "tiny", "input_mtok": "1.5", "output_mtok": "6"}
    assert send(client, person, "set-price-form", **rates).status_code == 303
    book = PriceBook().with_toml(stored(db_session))
    assert book.negotiated == (
        "anthropic: 12% off",
        "acme tiny: input_mtok $1.50, output_mtok $6.00",
    )
    assert {"azure chat priced as azure gpt-4o", "azure prod-* priced as azure gpt-4o"} == set(
        book.aliases
    )


@each_case(
    ("fields", "problem"),
    [
        ({"provider": "azure", "model": ""}, "Enter the provider and the model"),
        ({"provider": "azure", "model": "x"}, "or an input and an output rate."),
        ({"provider": "a", "model": "x", "input_mtok": "1"}, "or an input and an output rate."),
        (
            {"provider": "a", "model": "x", "as_provider": "openai", "as_model": "nothing-9"},
            "that model is not in the price book",
        ),
        ({"provider": "a", "model": "x", "input_mtok": "one", "output_mtok": "2"}, "input_mtok"),
    ],
)
def test_an_incomplete_price_says_what_is_missing(
    client: FlaskClient, person: Person, fields: dict[str, str], problem: str
) -> None:
    answer = send(client, person, "set-price-form", **fields)
    assert answer.status_code == 422
    assert problem in words(answer)


def test_a_model_without_a_price_leads_its_owner_to_the_form_with_suggestions(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    report = make_report(unpriced=(UnpricedModel(provider="openai", model="gpt-4o-prd", calls=3),))
    audit_id = add_run(sessions, person.account_id, report)
    page = client.get(f"/audits/{audit_id}", headers=person.headers).get_data(as_text=True)
    link = f"{PATH}?provider=openai&amp;model=gpt-4o-prd"
    assert link in page
    form = client.get(link.replace("&amp;", "&"), headers=person.headers).get_data(as_text=True)
    assert 'value="gpt-4o-prd"' in form
    assert "as_provider=openai&amp;as_model=gpt-4o" in form


def test_rates_are_in_no_log(
    client: FlaskClient, person: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    send(client, person, "terms-form", terms="[discounts]\nanthropic = 0.4321")
    send(client, person, "terms-form", terms="[discounts]\nanthropic = 4.4321")
    caught = capsys.readouterr()
    assert "4321" not in caught.out + caught.err
