"""Sign-in, mail, payments and credits, reruns and purges, admin acts, early access.

Revision ID: 0002
Revises: 0001
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_APPEND_ONLY = ("payment_events", "admin_acts")


def upgrade() -> None:
    _let_accounts_have_several_subscriptions()
    _add_audit_columns()
    _create_sign_in()
    _create_mails()
    _create_payments()
    _create_credits()
    _create_logs()


def downgrade() -> None:
    for table in _APPEND_ONLY:
        op.execute(f"DROP TRIGGER {table}_append_only ON {table}")
        op.execute(f"DROP TRIGGER {table}_no_truncate ON {table}")
    op.execute("DROP FUNCTION refuse_change()")
    for table in (
        "early_access",
        "admin_acts",
        "credits",
        "payment_events",
        "payments",
        "customers",
        "mails",
        "sessions",
        "magic_links",
    ):
        op.drop_table(table)
    op.drop_column("idempotency_keys", "body_hash")
    for index in ("ix_audits_raw_kept", "ix_audits_created"):
        op.drop_index(index, "audits")
    for column in ("starts_before_rerun", "raw_purged_at", "size_bytes"):
        op.drop_column("audits", column)
    _let_accounts_have_one_subscription()


def _let_accounts_have_several_subscriptions() -> None:
    op.execute("UPDATE subscriptions SET reference = account_id WHERE reference IS NULL")
    op.add_column("subscriptions", sa.Column("id", sa.String(), nullable=True))
    op.execute("UPDATE subscriptions SET id = account_id")
    op.drop_constraint("pk_subscriptions", "subscriptions")
    op.create_primary_key(op.f("pk_subscriptions"), "subscriptions", ["id"])
    op.alter_column("subscriptions", "account_id", nullable=True)
    op.alter_column("subscriptions", "reference", nullable=False)
    op.alter_column("subscriptions", "plan", nullable=True)
    for column in (
        sa.Column("customer_reference", sa.String(), nullable=True),
        sa.Column("event_rank", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("event_id", sa.String(), nullable=False, server_default=""),
    ):
        op.add_column("subscriptions", column)
    op.create_unique_constraint(
        op.f("uq_subscriptions_provider"), "subscriptions", ["provider", "reference"]
    )
    for column in ("account_id", "customer_reference"):
        op.create_index(op.f(f"ix_subscriptions_{column}"), "subscriptions", [column])


def _let_accounts_have_one_subscription() -> None:
    """Keep of each account the subscription that changed last."""
    op.execute("DELETE FROM subscriptions WHERE account_id IS NULL OR plan IS NULL")
    op.execute(
        "DELETE FROM subscriptions AS one USING subscriptions AS other"
        " WHERE one.account_id = other.account_id"
        " AND (one.event_at, one.id) < (other.event_at, other.id)"
    )
    for column in ("account_id", "customer_reference"):
        op.drop_index(op.f(f"ix_subscriptions_{column}"), "subscriptions")
    op.drop_constraint("uq_subscriptions_provider", "subscriptions")
    for column in ("event_id", "event_rank", "customer_reference"):
        op.drop_column("subscriptions", column)
    op.drop_constraint("pk_subscriptions", "subscriptions")
    op.drop_column("subscriptions", "id")
    op.alter_column("subscriptions", "plan", nullable=False)
    op.alter_column("subscriptions", "reference", nullable=True)
    op.create_primary_key(op.f("pk_subscriptions"), "subscriptions", ["account_id"])


def _add_audit_columns() -> None:
    op.add_column("audits", sa.Column("size_bytes", sa.BigInteger(), nullable=True))
    op.add_column("audits", _time("raw_purged_at", nullable=True))
    op.add_column(
        "audits",
        sa.Column("starts_before_rerun", sa.Integer(), nullable=False, server_default="0"),
    )
    op.create_index("ix_audits_created", "audits", ["created_at", "id"])
    op.create_index(
        "ix_audits_raw_kept",
        "audits",
        ["finished_at", "id"],
        postgresql_where=sa.text("raw_purged_at IS NULL"),
    )
    op.add_column("idempotency_keys", sa.Column("body_hash", sa.LargeBinary(), nullable=True))


def _create_sign_in() -> None:
    op.create_table(
        "magic_links",
        _text("id"),
        _text("email"),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        _text("next_path", nullable=True),
        _time("created_at"),
        _time("expires_at"),
        _time("ended_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_magic_links")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_magic_links_secret_hash")),
    )
    op.create_index("ix_magic_links_email_created", "magic_links", ["email", "created_at"])
    _index("magic_links", "expires_at")
    op.create_table(
        "sessions",
        _text("id"),
        _text("account_id"),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        _text("user_agent"),
        _time("created_at"),
        _time("last_seen_at"),
        _time("expires_at"),
        _account_key("sessions", "CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_sessions_secret_hash")),
    )
    _index("sessions", "account_id", "expires_at")


def _create_mails() -> None:
    op.create_table(
        "mails",
        _text("id"),
        _text("account_id", nullable=True),
        _text("kind"),
        _text("recipient"),
        sa.Column("parameters", postgresql.JSONB(), nullable=False),
        _text("dedupe_key", nullable=True),
        _text("status"),
        _time("created_at"),
        _time("expires_at", nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        _time("next_attempt_at"),
        _text("lease_token", nullable=True),
        _time("lease_expires_at", nullable=True),
        _time("sent_at", nullable=True),
        _text("error", nullable=True),
        sa.CheckConstraint(
            "status IN ('queued', 'sending', 'sent', 'failed')", name=op.f("ck_mails_status")
        ),
        _account_key("mails", "CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mails")),
        sa.UniqueConstraint("dedupe_key", name=op.f("uq_mails_dedupe_key")),
    )
    _index("mails", "account_id")
    op.create_index(
        "ix_mails_unsent",
        "mails",
        ["next_attempt_at", "id"],
        postgresql_where=sa.text("status IN ('queued', 'sending')"),
    )


def _create_payments() -> None:
    op.create_table(
        "customers",
        _text("provider"),
        _text("reference"),
        _text("email", nullable=True),
        _time("email_at", nullable=True),
        sa.PrimaryKeyConstraint("provider", "reference", name=op.f("pk_customers")),
    )
    _index("customers", "email")
    op.create_table(
        "payments",
        _text("id"),
        _text("account_id", nullable=True),
        _text("provider"),
        _text("reference"),
        _text("customer_reference", nullable=True),
        _text("email", nullable=True),
        _text("kind", nullable=True),
        _text("plan", nullable=True),
        sa.Column("amount", sa.Numeric(precision=20, scale=4), nullable=True),
        _text("currency", nullable=True),
        _time("paid_at", nullable=True),
        _time("refunded_at", nullable=True),
        _time("created_at"),
        sa.CheckConstraint("kind IN ('credit', 'subscription')", name=op.f("ck_payments_kind")),
        _account_key("payments", "SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payments")),
        sa.UniqueConstraint("provider", "reference", name=op.f("uq_payments_provider")),
    )
    _index("payments", "account_id", "customer_reference", "email")
    op.create_table(
        "payment_events",
        sa.Column("id", sa.BigInteger(), autoincrement=True, nullable=False),
        _text("provider"),
        _text("event_id"),
        _text("type"),
        _time("occurred_at"),
        _time("received_at"),
        sa.Column("payload", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_payment_events")),
        sa.UniqueConstraint("provider", "event_id", name=op.f("uq_payment_events_provider")),
    )


def _create_credits() -> None:
    op.create_table(
        "credits",
        _text("id"),
        _text("account_id"),
        _text("payment_id", nullable=True),
        _text("audit_id", nullable=True),
        _time("granted_at"),
        _time("claimed_at", nullable=True),
        _time("returned_at", nullable=True),
        _time("revoked_at", nullable=True),
        _account_key("credits", "CASCADE"),
        sa.ForeignKeyConstraint(
            ["payment_id"],
            ["payments.id"],
            name=op.f("fk_credits_payment_id_payments"),
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["audit_id"], ["audits.id"], name=op.f("fk_credits_audit_id_audits"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_credits")),
        sa.UniqueConstraint("payment_id", name=op.f("uq_credits_payment_id")),
        sa.UniqueConstraint("audit_id", name=op.f("uq_credits_audit_id")),
    )
    _index("credits", "account_id")
    op.create_index(
        "ix_credits_free",
        "credits",
        ["account_id", "granted_at"],
        postgresql_where=sa.text("audit_id IS NULL AND revoked_at IS NULL"),
    )


def _create_logs() -> None:
    op.create_table(
        "admin_acts",
        sa.Column("id", sa.BigInteger(), autoincrement=True, nullable=False),
        _text("act"),
        _text("target"),
        sa.Column("details", postgresql.JSONB(), nullable=False),
        _text("via"),
        _text("request_id", nullable=True),
        _time("acted_at"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_admin_acts")),
    )
    _index("admin_acts", "acted_at")
    op.create_table(
        "early_access",
        _text("email"),
        _time("asked_at"),
        sa.PrimaryKeyConstraint("email", name=op.f("pk_early_access")),
    )
    _index("early_access", "asked_at")
    op.execute(
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$"
        " BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    for table in _APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION refuse_change()"
        )
        op.execute(
            f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.String(), nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _account_key(table: str, on_delete: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_account_id_accounts")
    return sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=name, ondelete=on_delete)


def _index(table: str, *columns: str) -> None:
    for column in columns:
        op.create_index(op.f(f"ix_{table}_{column}"), table, [column])
