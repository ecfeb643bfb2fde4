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
_OWNS_DATABASE: Final = text(
    "SELECT pg_has_role(datdba, 'MEMBER') FROM pg_database WHERE datname = current_database()"
)
_IS_SUPERUSER: Final = text("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
# Everything that creates, reads or writes one; the service has none.
_LARGE_OBJECTS: Final = text(
    "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace"
    " AND (proname LIKE 'lo\\_%' OR proname IN ('lowrite', 'loread'))"
    " AND has_function_privilege('public', oid, 'EXECUTE')"
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
    schema = connection.scalar(text("SELECT quote_ident(current_schema())"))
    append_only = connection.scalars(_APPEND_ONLY).all()
    statements = [
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
        f"GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
        *(f"REVOKE UPDATE, DELETE ON {table} FROM {role}" for table in append_only),
        f"REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM {role}",
    ]
    # Take from every role but owners what fills a disk beside the tables: temporary tables, and
    # large objects, whose functions anyone may call. Only a database's owner, and only a
    # superuser, can revoke them; on the server of someone else they may stay.
    if connection.scalar(_OWNS_DATABASE):
        database = connection.scalar(text("SELECT quote_ident(current_database())"))
        statements.append(f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC")
    if connection.scalar(_IS_SUPERUSER):
        functions = connection.scalars(_LARGE_OBJECTS).all()
        statements += [f"REVOKE EXECUTE ON FUNCTION {each} FROM PUBLIC" for each in functions]
    for statement in statements:
        connection.execute(text(statement))
    return True
