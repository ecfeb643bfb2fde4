"""/settings/assumptions: the numbers that an account's audits assume, with units and limits."""

import msgspec
import pytest
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from detectors import Thresholds
from detectors.contract import ASSUMPTIONS, Report, read_assumptions
from service.models import AuditSettings
from tests.cases import each_case
from tests.service.support.documents import make_report
from tests.service.support.scenes import Sessions
from tests.service.support.uploads import Person
from tests.service.web.pages.forms import load_form
from tests.service.web.pages.scenes import add_run
from tests.service.web.pages.words import words

PATH = "/settings/assumptions"


def save(client: FlaskClient, person: Person, **typed: str) -> TestResponse:
    form = load_form(client, PATH, "assumptions", person.headers)
    return client.post(form.action, headers=form.headers, data={"csrf_token": form.token, **typed})


def stored(session: Session) -> dict[str, float]:
    row = session.scalars(select(AuditSettings)).one()
    return row.assumptions


def test_every_assumption_is_a_threshold_of_the_detectors_with_its_default() -> None:
    defaults = Thresholds()
    for each in ASSUMPTIONS:
        value = getattr(defaults, each.name)
        assert (value, type(value)) == (each.default, type(each.default)), each.name


def test_assumptions_are_shown_saved_and_reset(
    client: FlaskClient, person: Person, db_session: Session
) -> None:
    page = words(client.get(PATH, headers=person.headers))
    assert "A prompt cache lives for (seconds)" in page
    assert "Default: 300 seconds." in page
    assert "Default: 5 calls. Minimum: 1 call." in page
    assert "Missed prompt caching" in page
    # It saves what differs from the defaults.
    typed = {"d2_cache_seconds": "3,600", "d6_saving_share": "12.5", "d4_gap_seconds": "30"}
    answer = save(client, person, **typed)
    assert (answer.status_code, answer.location) == (303, f"{PATH}?saved=")
    assert stored(db_session) == {"d2_cache_seconds": 3600, "d6_saving_share": 0.125}
    page = client.get(f"{PATH}?saved=", headers=person.headers).get_data(as_text=True)
    assert 'value="3600"' in page
    assert 'value="12.5"' in page
    # A reset returns to the defaults.
    save(client, person, d2_cache_seconds="60")
    form = load_form(client, PATH, "assumptions", person.headers)
    data = {"csrf_token": form.token}
    assert client.post(f"{PATH}/reset", headers=form.headers, data=data).status_code == 303
    assert stored(db_session) == {}


@each_case(
    ("name", "typed", "problem"),
    [
        ("d2_cache_seconds", "five", "Enter a whole number from 0 to 1,000,000,000."),
        ("d2_cache_seconds", "1.5", "Enter a whole number from 0 to 1,000,000,000."),
        ("d2_cache_seconds", "1e999999999", "Enter a whole number from 0 to 1,000,000,000."),
        ("d3_saving_share", "101", "Enter a number from 0 to 100."),
        ("d3_saving_share", "NaN", "Enter a number from 0 to 100."),
        ("d6_calls_per_request", "0", "Enter a whole number from 1 to 1,000,000,000."),
        ("floor_usd", "-1", "Enter a number from 0 to 1,000,000,000."),
    ],
)
def test_a_value_outside_its_limits_is_named_beside_its_field_and_nothing_is_saved(
    client: FlaskClient, person: Person, db_session: Session, name: str, typed: str, problem: str
) -> None:
    answer = save(client, person, **{"d4_gap_seconds": "60", name: typed})
    assert answer.status_code == 422
    assert problem in words(answer)
    assert f'value="{typed}"' in answer.get_data(as_text=True)
    assert db_session.scalars(select(AuditSettings)).all() == []


def test_a_report_lists_the_assumptions_that_differ_from_the_defaults(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    report = make_report()
    changed = msgspec.structs.replace(
        report, thresholds=Thresholds(d2_cache_seconds=3600, d3_saving_share=0.25)
    )
    usual, other = (
        words(client.get(f"/audits/{add_run(sessions, person.account_id, each)}",
                         headers=person.headers))
        for each in (report, changed)
    )  # fmt: skip
    assert "Changed assumptions" not in usual
    assert "A prompt cache lives for: 3,600 seconds (default: 300 seconds)" in other
    assert "Avoidable share of the tokens above the usual length: 25% (default: 50%)" in other


def test_a_document_without_some_of_them_has_the_defaults() -> None:
    document = msgspec.json.decode(make_report().to_json())
    del document["thresholds"]["d2_cache_seconds"]
    read = Report.from_json(msgspec.json.encode(document))
    assert read.thresholds.d2_cache_seconds == 300


def test_a_stored_value_that_the_thresholds_refuse_is_an_error() -> None:
    assert read_assumptions({"d2_cache_seconds": 300, "gone": 1}) == {}
    with pytest.raises(ValueError, match="d3_saving_share must be a number from 0 to 1"):
        read_assumptions({"d3_saving_share": 2})
