"""Runs the migrations on the connection that `service.core.db` hands in, each in a transaction.

Offline, it writes their SQL instead.
"""

from alembic import context
from alembic.util import CommandError

from service.models import Base


def _limit_lock_waits() -> None:
    """Begin transactions as `service.core.db` does."""
    impl = context.get_context().impl
    emit_begin = impl.emit_begin

    def begin() -> None:
        emit_begin()
        impl.static_output("SET LOCAL lock_timeout = '1s';")

    impl.emit_begin = begin


connection = context.config.attributes.get("connection")
if context.is_offline_mode():
    context.configure(
        dialect_name="postgresql",
        target_metadata=Base.metadata,
        literal_binds=True,
        transaction_per_migration=True,
    )
    _limit_lock_waits()
elif connection is None:
    raise CommandError("Run `tallystick migrate`, which connects to the database.")
else:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        transaction_per_migration=True,
    )
with context.begin_transaction():
    context.run_migrations()
