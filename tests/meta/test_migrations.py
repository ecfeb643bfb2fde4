"""Migrations work from nothing to head and back, run concurrently, and match the models."""

import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from click.testing import CliRunner, Result
from sqlalchemy import Connection, Engine, create_engine, event, inspect, make_url, text

from service.cli.processes import migrate as migrate_command
from service.core.db import downgrade, find_revision, migrate
from service.errors import ConfigError
from service.models import Base
from tests.databases import as_owner, make_database

ROOT = Path(__file__).parents[2]
NEXT_MIGRATION = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "9999", "{head}"


def upgrade() -> None:
    op.add_column("audits", sa.Column("next", sa.Integer, server_default="0", nullable=False))
    with op.get_context().autocommit_block():
        op.drop_index("ix_next", if_exists=True, postgresql_concurrently=True)
        op.create_index("ix_next", "audits", ["next"], if_not_exists=True,
            postgresql_concurrently=True)


def downgrade() -> None:
    op.drop_column("audits", "next")
"""


# What PostgreSQL reports when it can't extend a table's file.
FULL_DISK = """
CREATE FUNCTION fill_disk() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE 'could not extend file' USING ERRCODE = 'disk_full';
END $$;
CREATE EVENT TRIGGER full_disk ON ddl_command_start EXECUTE FUNCTION fill_disk();
"""


@pytest.fixture
def empty_database(database_url: str) -> Iterator[str]:
    name = f"migrations_{uuid4().hex}"
    owner_url = as_owner(database_url)
    engine = create_engine(owner_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        yield make_url(owner_url).set(database=name).render_as_string(hide_password=False)
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def migrated_database(database_url: str) -> str:
    return as_owner(make_database(database_url))


def _tables(url: str) -> set[str]:
    engine = create_engine(url)
    tables = set(inspect(engine).get_table_names())
    engine.dispose()
    return tables - {"alembic_version"}


def test_downgrade_to_an_empty_database_and_upgrade_from_one(migrated_database: str) -> None:
    assert _tables(migrated_database) == set(Base.metadata.tables)
    downgrade(migrated_database, "base")
    assert _tables(migrated_database) == set()
    migrate(migrated_database)
    assert _tables(migrated_database) == set(Base.metadata.tables)


@pytest.mark.parametrize("count", [3, pytest.param(None, marks=pytest.mark.stress)])
def test_each_step_goes_down_and_up_again(migrated_database: str, count: int | None) -> None:
    """By default, each of the newest steps: the others have not changed since they were tried."""
    scripts = ScriptDirectory(str(ROOT / "migrations"))
    for step in list(scripts.walk_revisions())[:count]:
        before = str(step.down_revision or "base")
        downgrade(migrated_database, before)
        migrate(migrated_database, step.revision)
        downgrade(migrated_database, before)


def test_models_and_migrations_agree(migrated_database: str) -> None:
    engine = create_engine(migrated_database)
    with engine.connect() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, Base.metadata) == []
        assert _included_in_tables(connection) == _included_in_models()
        assert _constraints(connection.engine.url.render_as_string(False)) >= {
            "ck_audits_status",
            "ck_audits_source",
            "ck_subscriptions_plan",
        }
    engine.dispose()


def _included_in_tables(connection: Connection) -> dict[str, list[str]]:
    """Return the columns that indexes contain besides their keys, which Alembic doesn't compare."""
    indexes = chain.from_iterable(inspect(connection).get_multi_indexes().values())
    options = {str(each["name"]): each.get("dialect_options", {}) for each in indexes}
    included = {name: each.get("postgresql_include") for name, each in options.items()}
    return {name: columns for name, columns in included.items() if columns}


def _included_in_models() -> dict[str, list[str]]:
    indexes = (index for table in Base.metadata.tables.values() for index in table.indexes)
    options = {str(index.name): index.dialect_options["postgresql"] for index in indexes}
    return {name: list(each["include"]) for name, each in options.items() if each["include"]}


def _constraints(url: str) -> set[str]:
    engine = create_engine(url)
    with engine.connect() as connection:
        names = set(connection.scalars(text("SELECT conname FROM pg_constraint")).all())
    engine.dispose()
    return names


def test_migrations_started_at_once_do_not_collide(empty_database: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: migrate(empty_database), range(4)))
    assert _tables(empty_database) == set(Base.metadata.tables)


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The migrations of a release that adds an index to a large table, as files of its own."""
    folder = tmp_path / "migrations"
    shutil.copytree(ROOT / "migrations", folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr("service.core.db._MIGRATIONS", folder)
    head = ScriptDirectory(str(folder)).get_current_head()
    (folder / "versions" / "9999_next.py").write_text(NEXT_MIGRATION.format(head=head))
    return folder


def test_an_index_is_created_beside_writers(next_release: Path, migrated_database: str) -> None:
    with ThreadPoolExecutor(3) as pool:  # those that wait for the lock have no snapshot
        list(pool.map(lambda _: migrate(migrated_database), range(3)))
    assert "ix_next" in _indexes(migrated_database)
    downgrade(migrated_database, "-1")
    assert "ix_next" not in _indexes(migrated_database)


def _indexes(url: str) -> set[str | None]:
    engine = create_engine(url)
    names = {index["name"] for index in inspect(engine).get_indexes("audits")}
    engine.dispose()
    return names


def test_a_table_in_use_is_tried_again_and_what_was_done_stays(
    next_release: Path, migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.core.db._TABLE_LOCK_MS", 20)
    monkeypatch.setattr("service.core.db._TABLE_LOCK_TRIES", 2)
    monkeypatch.setattr("service.core.db._TABLE_LOCK_PAUSE_SECONDS", 0)
    engine = create_engine(migrated_database)
    with engine.connect() as connection:
        connection.execute(text("SELECT count(*) FROM audits"))
        with pytest.raises(ConfigError, match="has used a table for a minute"):
            migrate(migrated_database)
        connection.execute(text("SELECT 1"))  # it was not disturbed
        with monkeypatch.context() as ending:
            # Not `time.sleep` itself, which other threads of this process use, too.
            sleep = {"sleep": lambda _seconds: connection.rollback()}
            ending.setattr("service.core.db.time", SimpleNamespace(**{**vars(time), **sleep}))
            migrate(migrated_database)
    assert "ix_next" in _indexes(migrated_database)
    downgrade(migrated_database, "0034")
    with engine.connect() as connection:
        connection.execute(text("SELECT count(*) FROM audits"))
        with pytest.raises(ConfigError, match="has used a table for a minute"):
            downgrade(migrated_database, "0032")
        assert find_revision(connection) == "0033"
    engine.dispose()


def test_migrations_are_numbered_without_a_gap_or_a_branch() -> None:
    files = sorted(path.name for path in (ROOT / "migrations" / "versions").glob("*.py"))
    assert [name[:4] for name in files] == [f"{number:04d}" for number in range(1, len(files) + 1)]
    scripts = ScriptDirectory(str(ROOT / "migrations"))
    assert len(scripts.get_heads()) == 1
    assert scripts.get_current_head() == files[-1][:4]


@pytest.mark.stress
def test_an_audit_with_a_report_whose_recalculation_failed_is_done_again(
    empty_database: str,
) -> None:
    """By default, only the newest steps are tried: those that are released do not change."""
    migrate(empty_database, "0010")
    engine = create_engine(empty_database)
    with engine.begin() as connection:
        for statement in (
            "INSERT INTO accounts (id, email, created_at) VALUES ('a', 'a@example.com', now())",
            "INSERT INTO audits (id, account_id, source, status, created_at, blob_key, starts,"
            " records, observed_days, total_spend_usd, projected_spend_usd, projected_savings_usd,"
            " savings_pct, equiv_spend, findings_count)"
            " SELECT id, 'a', 'upload', 'failed', now(), id, 4, 1, 1, 0, 0, 0, 0, false, 0"
            " FROM unnest(ARRAY['reported', 'never']) AS id",
            "INSERT INTO reports (audit_id, document, created_at)"
            " VALUES ('reported', '{}', '2026-01-01T00:00:00Z')",
        ):
            connection.execute(text(statement))
    migrate(empty_database)
    with engine.connect() as connection:
        query = text("SELECT id, status, finished_at::date::text FROM audits ORDER BY id")
        rows = [tuple(row) for row in connection.execute(query)]
    engine.dispose()
    assert rows == [("never", "failed", None), ("reported", "done", "2026-01-01")]


@pytest.mark.stress
def test_stored_spend_of_flat_rate_plans_becomes_plan_usage_and_back(empty_database: str) -> None:
    """By default, only the newest steps are tried: those that are released do not change."""
    migrate(empty_database, "0039")
    line = (
        "SELECT 'a', 'f', '2026-03-01', 'chat', provider, 'm', '', 10, 0, 1, 1, 1, 1, usd, usd"
        " FROM (VALUES ('openai', 2.5), ('claude-code', 40), ('codex', 7)) AS of (provider, usd)"
    )
    engine = create_engine(empty_database)
    with engine.begin() as connection:
        for statement in (
            "INSERT INTO accounts (id, email, created_at) VALUES ('a', 'a@example.com', now())",
            "INSERT INTO call_files (id, account_id, blob_key, level, first_day, last_day, calls,"
            " bytes, imports, duplicates)"
            " VALUES ('f', 'a', 'calls/f', 0, '2026-03-01', '2026-03-01', 30, 1, 1, 0)",
            "INSERT INTO daily_spend (account_id, file_id, day, route, provider, model,"
            " environment, calls, unpriced_calls, prompt_tokens, completion_tokens, cached_tokens,"
            f" cache_write_tokens, cost_usd, list_usd) {line}",
            "INSERT INTO accounts (id, email, created_at) VALUES ('b', 'b@example.com', now())",
            "INSERT INTO call_files SELECT (jsonb_populate_record(call_files,"
            """ '{"id": "g", "account_id": "b", "blob_key": "calls/g"}')).* FROM call_files""",
            "INSERT INTO spend_days (account_id, file_id, day, calls, cost_usd)"
            " VALUES ('b', 'g', now()::date + 900, 0, 0)",
            "INSERT INTO account_calls (account_id, first_import_at, last_import_at, last_audit_at)"
            " SELECT id, now(), now(), now() FROM accounts",
        ):
            connection.execute(text(statement))
    sums = "SELECT sum(cost_usd)::float, sum(calls)::int FROM "
    tables = ("daily_spend", "spend_days", "spend_groups WHERE label = 'provider'")
    for _ in range(2):
        migrate(empty_database)
        with engine.connect() as connection:
            found = [tuple(connection.execute(text(sums + table)).one()) for table in tables]
            assert found == [(2.5, 10)] * 3
            plans = connection.execute(text("SELECT sum(value_usd)::float FROM plan_usage"))
            assert plans.scalar() == 47
            # The account with calls of later days is audited again soon: 0041.
            due = "SELECT account_id FROM account_calls WHERE next_call_on < now()::date + 2"
            assert connection.scalars(text(due)).all() == ["b"]
        downgrade(empty_database, "0039")
        with engine.connect() as connection:
            found = [tuple(connection.execute(text(sums + table)).one()) for table in tables]
            assert found == [(49.5, 30)] * 3
    engine.dispose()


@pytest.mark.stress
def test_lines_with_days_of_a_zone_and_of_the_previous_release_go_down_and_up(
    empty_database: str,
) -> None:
    """What the previous release adds counts by UTC day, and going back adds up the two days.

    By default, only the newest steps are tried: those that are released do not change.
    """
    migrate(empty_database, "0052")
    lines = (
        "INSERT INTO daily_spend (account_id, file_id, day, route, provider, model, environment,"
        " calls, unpriced_calls, prompt_tokens, completion_tokens, cached_tokens,"
        " cache_write_tokens, cost_usd, list_usd{names}) VALUES ('a', 'f', '2026-11-0{day}', 'r',"
        " 'p', 'm', 'e', 2, 0, 1, 1, 0, 0, 3, 3{values})"
    )
    days = text("SELECT day::text, calls, cost_usd FROM spend_days ORDER BY 1, 2")
    shifts = text("SELECT day::text, day_shift, calls FROM spend_days ORDER BY 1, 2")
    engine = create_engine(empty_database)
    try:
        with engine.begin() as connection:
            connection.execute(
                text("INSERT INTO accounts (id, email, created_at) VALUES ('a', 'a@b.c', now())")
            )
            connection.execute(
                text(
                    "INSERT INTO call_files (id, account_id, blob_key, level, first_day, last_day,"
                    " calls, bytes, imports, duplicates, priced_with)"
                    " VALUES ('f', 'a', 'x', 0, '2026-11-01', '2026-11-02', 6, 1, 1, 0, '1|2|x/y')"
                )
            )
            connection.execute(text(lines.format(names="", day=1, values="")))
        migrate(empty_database)
        with engine.begin() as connection:
            connection.execute(text(lines.format(names=", day_shift", day=1, values=", 1")))
            connection.execute(text(lines.format(names="", day=2, values="")))
            found = connection.execute(shifts).all()
            assert found == [("2026-11-01", 0, 2), ("2026-11-01", 1, 2), ("2026-11-02", 0, 2)]
        downgrade(empty_database, "0052")
        with engine.begin() as connection:
            sums = connection.execute(days).all()
            assert sums == [("2026-11-01", 4, 6), ("2026-11-02", 2, 3)]
            groups = text("SELECT label, sum(calls), count(*) FROM spend_groups GROUP BY 1")
            assert {tuple(row)[1:] for row in connection.execute(groups)} == {(6, 2)}
            assert connection.scalar(text("SELECT priced_with FROM call_files")) is None
            connection.execute(text("DELETE FROM daily_spend"))
            assert connection.execute(days).all() == []
        migrate(empty_database)
    finally:
        engine.dispose()


LINE = (
    "INSERT INTO daily_spend (account_id, file_id, day, day_shift, route, provider, model,"
    " environment, calls, unpriced_calls, prompt_tokens, completion_tokens, cached_tokens,"
    " cache_write_tokens, cost_usd, list_usd) VALUES ('a', 'f', '2026-11-01', {shift}, 'r', 'p',"
    " 'm', 'e', 2, 0, 1, 1, 0, 0, 3, 3)"
)


def test_pages_keep_an_index_while_keys_by_day_wait_for_a_dump(
    migrated_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is tried for a minute, with the index that an earlier try has made."""
    monkeypatch.setattr("service.core.db._TABLE_LOCK_MS", 20)
    monkeypatch.setattr("service.core.db._TABLE_LOCK_TRIES", 3)
    monkeypatch.setattr("service.core.db._TABLE_LOCK_PAUSE_SECONDS", 0)
    downgrade(migrated_database, "0052")
    former = _list_indexes(migrated_database)
    engine = create_engine(migrated_database)
    seen: list[dict[str, int]] = []

    def wait(_connection: object, _cursor: object, statement: str, *_others: object) -> None:
        if "ADD CONSTRAINT pk_spend_days" in statement:
            seen.append(_list_indexes(migrated_database))
            if len(seen) == 1:
                dump.execute(text("SELECT count(*) FROM spend_days"))
        elif "ALTER TABLE daily_spend" in statement:
            dump.rollback()

    try:
        with engine.connect() as dump:
            event.listen(Engine, "before_cursor_execute", wait)
            migrate(migrated_database, "0053")
    finally:
        event.remove(Engine, "before_cursor_execute", wait)
        engine.dispose()
    assert len(seen) == 2
    assert all(former.items() <= each.items() for each in seen)
    made = {"uq_spend_days_key", "uq_spend_groups_key"}
    assert made <= seen[0].keys()
    assert {name: seen[0][name] for name in made} == {name: seen[1][name] for name in made}
    assert _list_indexes(migrated_database).keys() >= {"ix_spend_days_local", "pk_spend_days"}


def _list_indexes(url: str) -> dict[str, int]:
    """Return the names and OIDs of the indexes on the sums by day."""
    query = (
        "SELECT indexrelid::regclass::text, indexrelid::bigint FROM pg_index WHERE indrelid IN"
        " ('daily_spend'::regclass, 'spend_days'::regclass, 'spend_groups'::regclass)"
    )
    engine = create_engine(url)
    with engine.connect() as connection:
        found = {name: oid for name, oid in connection.execute(text(query))}
    engine.dispose()
    return found


def test_lines_that_are_added_during_a_downgrade_have_utc_days(migrated_database: str) -> None:
    """An import with days of a zone can't make the key by UTC day fail half-way."""
    engine = create_engine(migrated_database)
    added = []

    def add(_connection: object, _cursor: object, statement: str, *_others: object) -> None:
        if "CREATE UNIQUE INDEX CONCURRENTLY" in statement and "uq_spend_days" in statement:
            added.append(statement)
            with engine.begin() as other:
                for shift in (0, 1):
                    other.execute(text(LINE.format(shift=shift)))

    downgrade(migrated_database, "0053")
    with engine.begin() as connection:
        for statement in (
            "INSERT INTO accounts (id, email, created_at) VALUES ('a', 'a@b.c', now())",
            "INSERT INTO call_files (id, account_id, blob_key, level, first_day, last_day, calls,"
            " bytes, imports, duplicates)"
            " VALUES ('f', 'a', 'x', 0, '2026-11-01', '2026-11-01', 6, 1, 1, 0)",
            LINE.format(shift=1),
        ):
            connection.execute(text(statement))
    event.listen(Engine, "before_cursor_execute", add)
    try:
        downgrade(migrated_database, "0052")
    finally:
        event.remove(Engine, "before_cursor_execute", add)
    assert len(added) == 1
    with engine.begin() as connection:
        days = text("SELECT day::text, calls, cost_usd FROM spend_days")
        assert connection.execute(days).all() == [("2026-11-01", 6, 9)]
        left = text("SELECT count(*) FROM pg_proc WHERE proname = 'count_in_utc'")
        assert connection.scalar(left) == 0
    engine.dispose()


@pytest.fixture
def run(
    empty_database: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """Run `tallystick migrate` with an empty database."""
    monkeypatch.setenv("DATABASE_URL", empty_database)
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("STORAGE_URL", "file:///nowhere")
    monkeypatch.setenv("SECRET_KEY", "a secret key for tests, 32 or longer")
    return lambda *arguments, **options: CliRunner().invoke(migrate_command, arguments, **options)


def test_a_downgrade_is_announced_and_confirmed(
    run: Callable[..., Result], empty_database: str
) -> None:
    assert run().exit_code == 0
    tables = _tables(empty_database)
    refused = run("--to", "0029")
    assert refused.exit_code == 1
    assert "It deletes the tables and columns that they added" in refused.output
    assert _tables(empty_database) == tables
    assert run("--to", "0029", input="y\n").exit_code == 0
    assert tables - _tables(empty_database) >= {"span_batches"}
    back = run("--to", "-1", "--yes")
    assert "This undoes 0029. " in back.output
    assert run("--to", "0029").exit_code == run("--to", "head").exit_code == 0
    assert _tables(empty_database) == tables
    assert run("--to", "base", "--yes").exit_code == run("--to", "base").exit_code == 0
    assert _tables(empty_database) == set()


def test_an_earlier_release_leaves_the_tables_of_a_later_one_as_they_are(
    run: Callable[..., Result], empty_database: str
) -> None:
    assert run().exit_code == 0
    engine = create_engine(empty_database)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE of_a_later_release ()"))
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    tables = _tables(empty_database)
    again = run()
    assert again.exit_code == 0
    assert "The tables stay at revision 9999, which this release doesn't know." in again.output
    down = run("--to", "-1", "--yes")
    assert down.exit_code == 2
    assert "the database is at revision 9999, which this release doesn't know" in down.output
    assert _tables(empty_database) == tables
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "9999"
    engine.dispose()


@pytest.mark.parametrize("revision", ["9999", "-1", "-x", ""])
def test_a_revision_that_is_none_is_one_line(run: Callable[..., Result], revision: str) -> None:
    result = run("--to", revision)
    assert result.exit_code == 2
    assert "unknown revision; this release knows 0001 to" in result.output


@pytest.mark.parametrize(
    ("revisions", "words"),
    [
        ("9999", "unknown revision"),
        ("-1", "unknown revision"),
        ("0030:", "unknown revision"),
        ("0031:0017", "upgrades only"),
        ("0001:0002:0003", "upgrades only"),
    ],
)
def test_sql_of_anything_but_an_upgrade_is_one_line(
    run: Callable[..., Result], revisions: str, words: str
) -> None:
    result = run("--sql", "--to", revisions)
    assert (result.exit_code, words in result.output) == (2, True), result.output


def test_the_sql_of_all_migrations_makes_the_same_tables(
    run: Callable[..., Result], empty_database: str
) -> None:
    result = run("--sql")
    assert result.exit_code == 0
    engine = create_engine(empty_database, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for number, part in enumerate(re.split(r"(?m)^(?:BEGIN|COMMIT);$", result.stdout)):
            # Each odd part is a transaction; outside, statements go one by one, as `psql` does.
            for statement in [part] if number % 2 else part.split(";\n"):
                if statement.strip():
                    connection.exec_driver_sql(statement)
    engine.dispose()
    assert _tables(empty_database) == set(Base.metadata.tables)
    assert run().exit_code == 0


def test_a_rejected_user_and_a_full_disk_are_not_an_unreachable_database(
    run: Callable[..., Result], empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_url(empty_database)
    for changed, words, status in (
        (url.set(username="nobody_here", password="CANARY"), "rejected the user or password", 2),
        (url.set(database="nothing_here"), "or its user doesn't exist", 2),
        (url.set(query={"host": "/nowhere"}), "can't connect to the database", 75),
    ):
        monkeypatch.setenv("DATABASE_URL", changed.render_as_string(hide_password=False))
        result = run()
        assert (result.exit_code, words in result.output) == (status, True), result.output
        assert "CANARY" not in result.output
    engine = create_engine(empty_database)
    with engine.begin() as connection:
        connection.exec_driver_sql(FULL_DISK)
    engine.dispose()
    monkeypatch.setenv("DATABASE_URL", empty_database)
    result = run()
    assert (result.exit_code, "disk of the database is full" in result.output) == (2, True)
