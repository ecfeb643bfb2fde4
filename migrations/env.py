"""Runs the migrations on the connection that `service.core.db` hands in, inside its transaction.

Offline, it writes their SQL instead.
"""

from alembic import context
from alembic.util import CommandError

from service.models import Base

connection = context.config.attributes.get("connection")
if context.is_offline_mode():
    context.configure(dialect_name="postgresql", target_metadata=Base.metadata, literal_binds=True)
elif connection is None:
    raise CommandError("Run `tallystick migrate`, which connects to the database.")
else:
    context.configure(connection=connection, target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
