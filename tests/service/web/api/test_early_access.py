"""Early access signups, and the list that administrators see."""

from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from service.models.identity.early_access import list_early_access
from tests.cases import each_case
from tests.service.support.scenes import error_of

PATH = "/api/v1/early-access"


def test_signups_are_listed_once_oldest_first(client: FlaskClient, db_session: Session) -> None:
    for email in ("b@example.org", "A@example.org", "B@example.org"):
        answer = client.post(PATH, json={"email": email}, environ_base={"REMOTE_ADDR": "fd00::ea"})
        assert answer.get_json() == {
            "message": "Thanks for signing up. We'll email you when your account is ready."
        }
    listed = [row.email for row in list_early_access(db_session)]
    assert listed == ["b@example.org", "a@example.org"]


def test_other_fields_are_named_and_not_repeated_if_they_are_no_names(client: FlaskClient) -> None:
    body = {"email": "b@example.org", "name": "CANARY", "plan": 1, "CANARY text": {}}
    answer = client.post(PATH, json=body, environ_base={"REMOTE_ADDR": "fd00::ed"})
    assert error_of(answer, 422, "validation_error") == (
        "Contains unknown fields: name, plan, a key that is not a field name. Send only: email."
    )


@each_case("path", [PATH, "/auth/magic-link"])
@each_case("body", ["[]", '"b@example.org"', "null", "7"])
def test_a_body_that_is_not_an_object_gets_the_expected_shape(
    client: FlaskClient, path: str, body: str
) -> None:
    sent_by = {"REMOTE_ADDR": "fd00::eb"}
    answer = client.post(path, data=body, content_type="application/json", environ_base=sent_by)
    assert error_of(answer, 422, "validation_error") == "Send a JSON object with the field email."
