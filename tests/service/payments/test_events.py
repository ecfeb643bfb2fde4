"""Row 12: events are append-only; no role can change their rows, not even their owner."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import DBAPIError

from service.operations.local.postgres import ROLE
from tests.databases import as_owner
from tests.worker.support.promises import Note, always_in_full

CHANGES = {
    "UPDATE": "UPDATE payment_events SET payload = '{}'",
    "UPDATE of nothing": "UPDATE payment_events SET type = type WHERE event_id = 'evt_1'",
    "upsert": "INSERT INTO payment_events (provider, event_id, type, occurred_at, received_at,"
    " payload) VALUES ('stripe', 'evt_1', 't', now(), now(), '{}')"
    " ON CONFLICT (provider, event_id) DO UPDATE SET type = 'other'",
    "DELETE": "DELETE FROM payment_events",
    "DELETE of one": "DELETE FROM payment_events WHERE event_id = 'evt_1'",
    "TRUNCATE": "TRUNCATE payment_events",
    "TRUNCATE CASCADE": "TRUNCATE payment_events CASCADE",
}
# Each role, and what it sets before it tries.
ROLES = {
    "the owner": (),
    "the owner, as if applying a replica's changes": (
        "SET LOCAL session_replication_role = replica",
    ),
    "a role that may do everything but own": ("SET LOCAL ROLE events_app",),
    "the service's role": (f"SET LOCAL ROLE {ROLE}",),
}


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """One event, and a role that may do everything to the tables except own them."""
    engine = create_engine(as_owner(database_url))
    with engine.connect() as connection:
        outer = connection.begin()
        connection.execute(text("CREATE ROLE events_app"))
        connection.execute(text("GRANT ALL ON ALL TABLES IN SCHEMA public TO events_app"))
        connection.execute(text("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO events_app"))
        connection.execute(
            text(
                "INSERT INTO payment_events (provider, event_id, type, occurred_at, received_at,"
                " payload) VALUES ('stripe', 'evt_1', 't', now(), now(), '{}')"
            )
        )
        yield connection
        outer.rollback()
    engine.dispose()


@always_in_full
def test_nobody_changes_or_removes_an_event(
    connection: Connection, occasion: str, note: Note
) -> None:
    broken = 0
    for role in ROLES:
        for change in CHANGES.values():
            broken += not _is_refused(connection, role, change)
    kept = connection.execute(text("SELECT provider, event_id, type FROM payment_events")).all()
    assert [tuple(row) for row in kept] == [("stripe", "evt_1", "t")]
    note("12 events are append-only", len(ROLES) * len(CHANGES), broken)


def _is_refused(connection: Connection, role: str, change: str) -> bool:
    attempt = connection.begin_nested()
    try:
        for setting in ROLES[role]:
            connection.execute(text(setting))
        connection.execute(text(change))
    except DBAPIError as error:
        refusals = ("payment_events is append-only", "permission denied for table payment_events")
        return any(refusal in str(error) for refusal in refusals)
    finally:
        attempt.rollback()
    return False
