"""The service's role can use the rows, and nothing else: not even with any SQL it likes."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError

from service.core.db import migrate
from service.errors import ConfigError
from service.operations.local.postgres import OWNER_ROLE, ROLE
from tests.cases import data_of, each_case
from tests.databases import as_owner, make_database, migrate_as_owner

APPEND_ONLY = ("payment_events", "admin_acts")
ATTACKS = [
    *data_of(__file__)["attacks"],
    *(
        statement.format(table=table)
        for table in APPEND_ONLY
        for statement in (
            "ALTER TABLE {table} DISABLE TRIGGER ALL",
            "ALTER TABLE {table} DISABLE TRIGGER {table}_append_only",
            "DROP TRIGGER {table}_append_only ON {table}",
            "UPDATE {table} SET id = id",
            "DELETE FROM {table}",
            "TRUNCATE {table}",
            "DROP TABLE {table}",
            "ALTER TABLE {table} RENAME TO other",
            "CREATE TRIGGER allow BEFORE DELETE ON {table} FOR EACH ROW"
            " EXECUTE FUNCTION suppress_redundant_updates_trigger()",
            "CREATE RULE allow AS ON INSERT TO {table} DO INSTEAD NOTHING",
        )
    ),
    f"SET ROLE {OWNER_ROLE}",
    f"SET SESSION AUTHORIZATION {OWNER_ROLE}",
    f"ALTER ROLE {ROLE} SUPERUSER",
    f"GRANT {OWNER_ROLE} TO {ROLE}",
]


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as connection:
        outer = connection.begin()
        yield connection
        outer.rollback()


@each_case("statement", ATTACKS)
def test_the_services_role_cannot(connection: Connection, statement: str) -> None:
    attempt = connection.begin_nested()
    with pytest.raises(DBAPIError, match="denied|must be|permission"):
        connection.execute(text(statement))
    attempt.rollback()


def test_the_services_role_owns_nothing_and_is_a_member_of_nothing(connection: Connection) -> None:
    assert connection.scalar(text("SELECT current_user")) == ROLE
    role = text(
        "SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls"
        " FROM pg_roles WHERE rolname = current_user"
    )
    assert connection.scalar(role) is False
    for query in (
        "SELECT count(*) FROM pg_class WHERE relowner = current_user::regrole",
        "SELECT count(*) FROM pg_proc WHERE proowner = current_user::regrole",
        "SELECT count(*) FROM pg_auth_members WHERE member = current_user::regrole",
    ):
        assert connection.scalar(text(query)) == 0, query
    # Every append only trigger fires always.
    triggers = (
        "SELECT tgrelid::regclass::text, tgenabled FROM pg_trigger JOIN pg_proc ON"
        " pg_proc.oid = tgfoid WHERE proname = 'refuse_change'"
    )
    states = [tuple(row) for row in connection.execute(text(triggers))]
    assert {table for table, _ in states} >= set(APPEND_ONLY)
    assert {state for _, state in states} == {"A"}


def test_the_triggers_that_an_earlier_release_created_are_changed_at_the_next_migration(
    database_url: str,
) -> None:
    url = as_owner(make_database(database_url))
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in APPEND_ONLY:
            connection.execute(text(f"ALTER TABLE {table} ENABLE TRIGGER {table}_append_only"))
            connection.execute(text(f"GRANT ALL ON {table} TO {ROLE}"))
    migrate_as_owner(url)
    with engine.connect() as connection:
        changed = text(
            "SELECT count(*) FROM pg_trigger WHERE tgname LIKE :name AND tgenabled = 'A'"
        )
        assert connection.scalar(changed, {"name": "%_append_only"}) == len(APPEND_ONLY)
        can = text("SELECT has_table_privilege(:role, 'admin_acts', 'UPDATE, DELETE, TRUNCATE')")
        assert connection.scalar(can, {"role": ROLE}) is False
    engine.dispose()


def test_a_role_that_owns_the_tables_is_noticed_and_one_that_is_missing_is_an_error(
    database_url: str,
) -> None:
    url = as_owner(make_database(database_url))
    assert migrate(url, service_role=OWNER_ROLE) is False
    assert migrate(url, service_role=ROLE) is True
    with pytest.raises(ConfigError, match="doesn't exist"):
        migrate(url, service_role="nobody_of_this_name")
