"""Uploads of a CSV with other column names: mapped by fields of the body, or by the page's form."""

import io
from pathlib import Path
from typing import Any, Final

from flask.testing import FlaskClient
from werkzeug.datastructures import MultiDict
from werkzeug.test import TestResponse

from detectors.formats import read_stored
from service.models import Audit
from tests.service.support.scenes import AUDITS, Sessions
from tests.service.support.uploads import Person, free_credits
from tests.service.web.pages.forms import load_form
from tests.service.web.pages.words import words

FOREIGN: Final = (
    b"created_at,model_name,Input Tokens,output_tokens,CANARY of a header,cost\n"
    b"2026-03-02T09:15:00Z,gpt-4o-mini,1200,85,CANARY of a cell,0.12\n"
)
MAPPED: Final = ("created_at=ts", "#2=model", "input tokens=prompt_tokens", "#5=", "cost=")
WHOLE: Final = (*MAPPED, "output_tokens=completion_tokens")


def send(
    client: FlaskClient, person: Person, mapped: tuple[str, ...], key: str = "", **fields: str
) -> TestResponse:
    parts: MultiDict[str, Any] = MultiDict([("map", pair) for pair in mapped])
    parts.update(fields)
    parts.add("file", (io.BytesIO(FOREIGN), "x.csv"))
    headers = {**person.headers, **({"Idempotency-Key": key} if key else {})}
    return client.post(AUDITS, data=parts, headers=headers)


def refused(response: TestResponse) -> str:
    assert response.status_code == 422
    assert "CANARY" not in response.get_data(as_text=True)
    message: str = response.get_json()["error"]["message"]
    return message


def test_a_mapped_csv_is_stored_with_our_names_only(
    client: FlaskClient, person: Person, sessions: Sessions, blobs: Path
) -> None:
    response = send(client, person, WHOLE, provider="OpenAI")
    assert response.status_code == 201
    with sessions() as session:
        audit = session.get_one(Audit, response.get_json()["audit_id"])
        assert audit.records == 1
        stored = (blobs / audit.blob_key).read_bytes()
    assert b"CANARY" not in stored
    (chunk,) = read_stored(io.BytesIO(stored))
    assert (chunk.columns["model"], chunk.columns["provider"]) == (["gpt-4o-mini"], ["openai"])


def test_a_replay_has_the_same_mapping(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    first = send(client, person, WHOLE, "k", provider="openai")
    again = send(client, person, tuple(reversed(WHOLE)), "k", provider="openai")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.get_json()["audit_id"] == first.get_json()["audit_id"]
    assert "different file" in refused(send(client, person, WHOLE, "k", provider="azure"))
    assert free_credits(sessions, person) == 1


def test_a_mapping_that_does_not_fit_is_refused_without_a_credit(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    sentences = {
        (*WHOLE, "Zeit=tag"): "The file has no column Zeit:",
        (*WHOLE, "CANARY x=tag"): "The file has no column of one name in the mapping:",
        (*MAPPED, "output_tokens=prompt_tokens"): "Two columns become prompt_tokens:",
        MAPPED: "These columns are neither mapped nor dropped: output_tokens;",
        ("created_at",): "Map a column as theirs=ours",
        ("created_at=price",): "price is not a field:",
    }
    for mapped, sentence in sentences.items():
        assert sentence in refused(send(client, person, mapped, provider="openai"))
    assert "add or map: provider." in refused(send(client, person, WHOLE))
    too_many = tuple(f"{number}=" for number in range(1_001))
    assert "no other parts" in refused(send(client, person, too_many))
    assert "no other parts" in refused(send(client, person, ("x" * 1_025,)))
    assert free_credits(sessions, person) == 2


def test_without_a_mapping_the_api_answers_as_before(client: FlaskClient, person: Person) -> None:
    message = refused(send(client, person, ()))
    assert message.startswith("We couldn't read this file: use OpenAI-style JSON Lines")


def test_without_scripts_the_refused_form_asks_what_each_column_is(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    form = load_form(client, "/upload", "upload", person.headers)

    def post(*mapped: str, **fields: Any) -> TestResponse:
        parts: MultiDict[str, Any] = MultiDict([("csrf_token", form.token)])
        parts.update(fields)
        parts.add("file", (io.BytesIO(FOREIGN), "x.csv"))
        parts.setlist("map", list(mapped))
        return client.post(form.action, data=parts, headers=form.headers)

    asked = post("", provider="")
    page = asked.get_data(as_text=True)
    assert asked.status_code == 422
    assert "CANARY" not in page
    assert ">Column 5<" in page
    assert 'value="#1=ts" data-synonyms="timestamp created_at' in page
    assert page.count(" selected") == 5  # four fields, and "Drop this column" for the costs
    again = post("#1=ts", "#2=model", "#3=prompt_tokens", "#4=completion_tokens", "#5=", "")
    assert "neither mapped nor dropped: cost;" in words(again)
    assert again.get_data(as_text=True).count(" selected") == 5
    whole = ("#1=ts", "#2=model", "#3=prompt_tokens", "#4=completion_tokens", "#5=", "#6=")
    assert post(*whole, provider="openai").status_code == 303
    assert free_credits(sessions, person) == 1
