"""Who asked for early access, as administrators list it."""

from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from service.models.early_access import list_early_access

PATH = "/api/v1/early-access"


def test_who_asked_is_listed_once_and_the_first_first(
    client: FlaskClient, db_session: Session
) -> None:
    for email in ("b@example.org", "A@example.org", "B@example.org"):
        answer = client.post(PATH, json={"email": email}, environ_base={"REMOTE_ADDR": "fd00::ea"})
        assert answer.get_json() == {"message": "Thank you. We will write to you."}
    listed = [row.email for row in list_early_access(db_session)]
    assert listed == ["b@example.org", "a@example.org"]
