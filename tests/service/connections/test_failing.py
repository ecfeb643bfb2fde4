"""A connection that has failed for a day is said by mail, once, without the key."""

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.config import Config
from service.mail.messages import compose
from service.models import Mail, ProviderConnection
from service.models.base import utc_now
from service.models.connections.connections import count_by_state, list_due_connections
from service.models.connections.failures import REASONS, explain
from service.operations.connections.failing import post_failing_mails
from tests.cases import each_case
from tests.service.support.scenes import add_account

KEY = "sk-admin-canary-1337"


def _add(session: Session, hours: float, error: str = "revoked", label: str = "") -> str:
    account = add_account(session)
    row = ProviderConnection(account_id=account.id, provider="openai", key=KEY, label=label)
    row.error, row.failing_since = error, utc_now() - timedelta(hours=hours)
    session.add(row)
    session.flush()
    return row.id


def _mails(session: Session, config: Config) -> Sequence[str]:
    mails = session.scalars(select(Mail).where(Mail.kind == "connection_failing")).all()
    return [compose(config, mail).as_string() for mail in mails]


def test_after_a_day_there_is_one_mail_and_before_there_is_none(
    db_session: Session, config: Config
) -> None:
    _add(db_session, hours=23)
    assert post_failing_mails(db_session.connection()) == []
    # After a day there is one mail.
    _add(db_session, hours=25, label="Production")
    connection = db_session.connection()
    assert len(post_failing_mails(connection)) == 1
    assert post_failing_mails(connection) == []
    [text] = _mails(db_session, config)
    assert "Your connection to OpenAI" in text
    assert "Production" in text
    assert "revoked or has expired" in text
    assert "/settings/connections" in text
    assert "canary" not in text


def test_a_link_in_a_name_is_not_mailed(db_session: Session, config: Config) -> None:
    _add(db_session, hours=25, label="https://evil.example/now")
    post_failing_mails(db_session.connection())
    [text] = _mails(db_session, config)
    assert "evil.example" not in text


@each_case("code", [*REASONS, "of a later release"])
def test_every_failure_says_what_happened_and_what_to_do(code: str) -> None:
    what, next_step = explain(code)
    assert what.endswith(".")
    assert next_step.endswith(".")


def test_failing_connections_are_counted_by_reason(db_session: Session) -> None:
    _add(db_session, hours=1)
    _add(db_session, hours=1, error="throttled")
    counts = count_by_state(db_session.connection())
    assert counts["openai", "revoked"] == 1
    assert counts["openai", "throttled"] == 1


def test_connections_that_are_due_are_found_until_a_worker_has_them(db_session: Session) -> None:
    connection_id = _add(db_session, hours=1)
    row = db_session.get_one(ProviderConnection, connection_id)
    row.next_pull_at = utc_now() - timedelta(minutes=1)
    db_session.flush()
    connection = db_session.connection()
    assert connection_id in list_due_connections(connection, 100)
    row.lease_token, row.lease_expires_at = "x", utc_now() + timedelta(minutes=1)
    db_session.flush()
    assert connection_id not in list_due_connections(connection, 100)
    row.lease_expires_at = utc_now() - timedelta(seconds=1)
    db_session.flush()
    assert connection_id in list_due_connections(connection, 100)
