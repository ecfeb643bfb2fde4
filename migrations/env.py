"""Runs the migrations on the connection that `service.core.db` hands in, inside its transaction."""

from alembic import context

from service.models import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
