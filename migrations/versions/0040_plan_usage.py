"""Calls that a plan includes, apart from the spend.

Stored lines of flat-rate plans move there; the triggers of `daily_spend` take them from its sums. A
process of the previous release that runs meanwhile still adds such lines to the spend, until
the files of its imports are merged.

Revision ID: 0040
Revises: 0039
"""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

# As of this release: `detectors/prices/data/flat_rate_labels.toml` may change later.
_LABELS = (
    "claude-code",
    "claude-max",
    "chatgpt",
    "codex",
    "copilot",
    "cursor",
    "github-copilot",
    "github_copilot",
    "github-copilot-enterprise",
    "zai-coding-plan",
    "zhipuai-coding-plan",
    "kimi-for-coding",
    "minimax-coding-plan",
    "minimax-cn-coding-plan",
    "alibaba-coding-plan",
    "alibaba-coding-plan-cn",
    "alibaba-token-plan",
    "alibaba-token-plan-cn",
    "tencent-coding-plan",
    "kuae-cloud-coding-plan",
    "umans-ai-coding-plan",
    "xiaomi-token-plan-ams",
    "xiaomi-token-plan-cn",
    "xiaomi-token-plan-sgp",
    "opencode-go",
    "opencode_go",
)
_PLANS = "(" + ", ".join(f"'{label}'" for label in _LABELS) + ")"
_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
_SAME = ", ".join(
    (
        *("account_id", "file_id", "day", "route", "provider", "model", "environment"),
        *("calls", "unpriced_calls", *_COUNTS),
    )
)
_INDEXES = {"ix_plan_usage_account": ["account_id", "day"], "ix_plan_usage_file_id": ["file_id"]}


def upgrade() -> None:
    op.add_column(
        "audits",
        sa.Column("included_calls", sa.BigInteger(), server_default="0", nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "plan_usage",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("route", "provider", "model", "environment")
        ),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("calls", "unpriced_calls", *_COUNTS)
        ),
        sa.Column("value_usd", sa.Numeric(precision=30, scale=9), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_plan_usage_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["file_id"],
            ["call_files.id"],
            name=op.f("fk_plan_usage_file_id_call_files"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plan_usage")),
        if_not_exists=True,
    )
    for name, columns in _INDEXES.items():
        op.create_index(name, "plan_usage", columns, unique=False, if_not_exists=True)
    with op.get_context().autocommit_block():
        # One statement, so that a line is in one of the tables whatever else changes the files.
        op.execute(
            f"WITH moved AS (DELETE FROM daily_spend WHERE provider IN {_PLANS} RETURNING *)"  # noqa: S608
            f" INSERT INTO plan_usage ({_SAME}, value_usd) SELECT {_SAME}, cost_usd FROM moved"
        )


def downgrade() -> None:
    op.execute(
        f"INSERT INTO daily_spend ({_SAME}, cost_usd, list_usd)"  # noqa: S608
        f" SELECT {_SAME}, value_usd, value_usd FROM plan_usage"
    )
    op.drop_table("plan_usage")
    op.drop_column("audits", "included_calls")
