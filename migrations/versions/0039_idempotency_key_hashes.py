"""Idempotency keys as hashes, because callers may write anything into them.

The previous release finds a key by its text. So a trigger adds a hash to each key, by which this
release finds it, and replaces the text only from a day after the migration of a database in use.
Housekeeping then replaces the text of older keys. A downgrade keeps the keys that have a text.

Revision ID: 0039
Revises: 0038
"""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

# No key of a caller begins like a replaced one: they are ASCII.
_FUNCTIONS = (
    """
    DO $do$ BEGIN
      EXECUTE format(
        'CREATE OR REPLACE FUNCTION idempotency_keys_hashed_from() RETURNS timestamptz'
        ' LANGUAGE sql STABLE AS $$ SELECT TIMESTAMPTZ %L $$',
        CASE WHEN EXISTS (SELECT FROM accounts) THEN now() + interval '1 day' ELSE now() END
      );
    END $do$
    """,
    """
    CREATE OR REPLACE FUNCTION hash_idempotency_key() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      NEW.key_hash := sha256(convert_to(NEW.key, 'UTF8'));
      IF now() >= idempotency_keys_hashed_from() THEN
        NEW.key := '§' || encode(NEW.key_hash, 'hex');
      END IF;
      RETURN NEW;
    END $$
    """,
    """
    CREATE OR REPLACE TRIGGER hash_idempotency_key BEFORE INSERT ON idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION hash_idempotency_key()
    """,
)
_TABLE = "idempotency_keys"
_INDEXES = {
    "uq_idempotency_keys_hash": (["account_id", "route", "key_hash"], True, None),
    "ix_idempotency_keys_text": (["created_at"], False, "key NOT LIKE '§%'"),
}


def upgrade() -> None:
    op.add_column(
        _TABLE, sa.Column("key_hash", sa.LargeBinary(), nullable=True), if_not_exists=True
    )
    for statement in _FUNCTIONS:
        op.execute(statement)
    with op.get_context().autocommit_block():
        # Nobody else changes these rows, so nobody waits for this.
        op.execute(
            "UPDATE idempotency_keys SET key_hash = sha256(convert_to(key, 'UTF8'))"
            " WHERE key_hash IS NULL"
        )
        for name, (columns, is_unique, where) in _INDEXES.items():
            op.drop_index(name, if_exists=True, postgresql_concurrently=True)
            op.create_index(
                name,
                _TABLE,
                columns,
                unique=is_unique,
                if_not_exists=True,
                postgresql_concurrently=True,
                postgresql_where=None if where is None else sa.text(where),
            )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        for name in _INDEXES:
            op.drop_index(name, if_exists=True, postgresql_concurrently=True)
    op.execute("DROP TRIGGER IF EXISTS hash_idempotency_key ON idempotency_keys")
    op.execute("DROP FUNCTION IF EXISTS hash_idempotency_key()")
    op.execute("DROP FUNCTION IF EXISTS idempotency_keys_hashed_from()")
    op.drop_column(_TABLE, "key_hash")
