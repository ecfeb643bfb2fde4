"""What the service's role may do in the database; the owner of the tables grants it.

The service's role owns nothing: it can't change tables, switch off triggers, or change rows of
append-only tables. Every migration ends with this, so new tables are covered.
"""

from typing import Final

from sqlalchemy import Connection, text

from service.errors import ConfigError

# Append-only tables have triggers that call this function.
_TRIGGERS: Final = """
    FROM pg_trigger AS triggers
    JOIN pg_class AS tables ON tables.oid = triggers.tgrelid
    JOIN pg_proc AS functions ON functions.oid = triggers.tgfoid
    WHERE functions.proname = 'refuse_change'
    AND tables.relnamespace = current_schema()::regnamespace
"""
_APPEND_ONLY: Final = text(f"SELECT DISTINCT quote_ident(tables.relname) {_TRIGGERS}")
# PostgreSQL skips ordinary triggers in sessions that apply a replica's changes.
_SKIPPED: Final = text(
    f"SELECT quote_ident(tables.relname), quote_ident(triggers.tgname) {_TRIGGERS}"
    " AND triggers.tgenabled <> 'A'"
)
_ROLE: Final = text("SELECT quote_ident(rolname) FROM pg_roles WHERE rolname = :role")
_OWNS_TABLES: Final = text(
    "SELECT EXISTS (SELECT FROM pg_class WHERE relkind = 'r' AND pg_has_role(:role, relowner,"
    " 'MEMBER') AND relnamespace = current_schema()::regnamespace)"
)


def protect_tables(connection: Connection, service_role: str | None) -> bool:
    """Keep append-only triggers on, and let the service's role use the rows only.

    Returns False if the role owns the tables, because then nothing can be withheld from it.
    """
    for table, trigger in connection.execute(_SKIPPED).all():
        connection.execute(text(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}"))
    if service_role is None:
        return False
    role = connection.scalar(_ROLE, {"role": service_role})
    if role is None:
        raise ConfigError("the role in DATABASE_URL doesn't exist; create it before you migrate")
    if connection.scalar(_OWNS_TABLES, {"role": service_role}):
        return False
    _grant(connection, role)
    return True


def _grant(connection: Connection, role: str) -> None:
    schema = connection.scalar(text("SELECT quote_ident(current_schema())"))
    append_only = connection.scalars(_APPEND_ONLY).all()
    for statement in (
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
        *(f"REVOKE UPDATE, DELETE ON {table} FROM {role}" for table in append_only),
        f"REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM {role}",
    ):
        connection.execute(text(statement))
