"""The outbox sends each mail once, and only while its lease is held."""

from datetime import timedelta

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from service.models import Mail
from service.models.base import utc_now
from service.models.mail.outbox import post_mail
from service.models.sending import claim, fail, finish, postpone

LEASE = 60.0


def _post(session: Session, dedupe_key: str | None = None) -> str | None:
    return post_mail(
        session, kind="sign_in", recipient="ada@example.org", parameters={}, dedupe_key=dedupe_key
    )


def test_a_mail_with_the_key_of_another_is_that_other(db_session: Session) -> None:
    first = _post(db_session, "report-1")
    assert first is not None
    assert _post(db_session, "report-1") is None
    assert _post(db_session, "report-2") is not None
    assert _post(db_session) != _post(db_session)
    assert db_session.scalar(select(func.count()).select_from(Mail)) == 4


def test_a_mail_is_claimed_once_until_its_lease_runs_out(db_session: Session) -> None:
    mail_id, connection = str(_post(db_session)), db_session.connection()
    first = claim(connection, Mail, mail_id, LEASE)
    assert first is not None
    assert claim(connection, Mail, mail_id, LEASE) is None
    db_session.execute(update(Mail).values(lease_expires_at=utc_now() - timedelta(seconds=1)))
    second = claim(connection, Mail, mail_id, LEASE)
    assert second is not None
    assert (first.attempts, second.attempts) == (1, 2)
    # The first no longer decides, unless it did send the mail.
    postpone(connection, first, "OSError")
    fail(connection, first, "OSError")
    assert db_session.scalar(select(Mail.status)) == "sending"
    finish(connection, first)
    postpone(connection, second, "OSError")
    assert db_session.scalar(select(Mail.status)) == "sent"
    assert claim(connection, Mail, mail_id, LEASE) is None


def test_pauses_grow_up_to_a_quarter_of_an_hour(db_session: Session) -> None:
    mail_id, connection = str(_post(db_session)), db_session.connection()
    pauses = []
    for _ in range(10):
        mail = claim(connection, Mail, mail_id, LEASE)
        assert mail is not None
        postpone(connection, mail, "OSError")
        assert claim(connection, Mail, mail_id, LEASE) is None
        waits = select(func.extract("epoch", Mail.next_attempt_at - func.now()))
        pauses.append(float(db_session.scalar(waits) or 0))
        db_session.execute(update(Mail).values(next_attempt_at=func.now()))
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 640, 900, 900]


def test_what_is_overdue_is_not_claimed(db_session: Session) -> None:
    expired, old = str(_post(db_session)), str(_post(db_session))
    gone, long_ago = utc_now() - timedelta(seconds=1), utc_now() - timedelta(hours=25)
    db_session.execute(update(Mail).where(Mail.id == expired).values(expires_at=gone))
    db_session.execute(update(Mail).where(Mail.id == old).values(created_at=long_ago))
    connection = db_session.connection()
    assert claim(connection, Mail, expired, LEASE) is None
    assert claim(connection, Mail, old, LEASE) is None
