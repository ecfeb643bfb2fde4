"""New migrations stop nobody: squawk finds no lock in their SQL that requests would wait for.

`make check` runs this; what to do instead is in
docs/decisions/workers/55-migrations-under-traffic.md.
"""

import json
import re
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Final

import pytest
from alembic.script import ScriptDirectory

from service.core.db import write_sql
from tests.cases import data_of

MIGRATIONS: Final = Path(__file__).parents[2] / "migrations"
SQUAWK: Final = Path(sys.prefix) / "bin" / "squawk"
TABLES: Final = data_of(__file__)
BASELINE: Final = {name: set(rules) for name, rules in TABLES["baseline"].items()}
BEGIN: Final = "BEGIN;\nSET LOCAL lock_timeout = '1s';\n"
# The first migration also creates the table of versions.
START: Final = re.compile(
    r"(?m)^(?=BEGIN;\n\nSET .*\n\n(?:CREATE TABLE alembic_version [^;]*;\n\n)?-- Running upgrade)"
)
# Its `ACCEPTED_LOCKS` maps rules to the reason why this migration may break them.
ACCEPTED: Final = "ACCEPTED_LOCKS"


def _revisions() -> dict[str, dict[str, str]]:
    """Return the rules that each migration says it may break, oldest first."""
    newest_first = ScriptDirectory(str(MIGRATIONS)).walk_revisions()
    scripts = reversed([*newest_first])
    return {script.revision: getattr(script.module, ACCEPTED, {}) for script in scripts}


def _sql_of_each() -> dict[str, str]:
    known, written = list(_revisions()), StringIO()
    with redirect_stdout(written):
        write_sql()
    before_all, *scripts = START.split(written.getvalue())
    numbers = re.findall(r"(?m)^-- Running upgrade .*-> (\w+)$", written.getvalue())
    assert (before_all, numbers) == ("", known)
    return dict(zip(known, scripts, strict=True))


def _find(folder: Path, scripts: dict[str, str]) -> dict[str, set[str]]:
    """Return the rules that each script breaks, of those that break any."""
    for name, sql in scripts.items():
        (folder / f"{name}.sql").write_text(sql)
    paths = [str(folder / f"{name}.sql") for name in scripts]
    config = str(MIGRATIONS / "squawk.toml")
    command = [str(SQUAWK), "--config", config, "--reporter", "json", *paths]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found: dict[str, set[str]] = {}
    for problem in json.loads(ran.stdout):
        found.setdefault(Path(problem["file"]).stem, set()).add(problem["rule_name"])
    return found


def test_no_migration_takes_a_lock_that_requests_wait_for(tmp_path: Path) -> None:
    found = _find(tmp_path, _sql_of_each())
    accepted = {name: set(reasons) for name, reasons in _revisions().items() if reasons}
    assert found == BASELINE | accepted
    assert max(BASELINE) < "0033"


def test_each_accepted_lock_has_a_reason() -> None:
    reasons = [reason for each in _revisions().values() for reason in each.values()]
    assert all(len(reason.split()) > 3 for reason in reasons)


@pytest.mark.parametrize(("statement", "rule"), TABLES["locks"])
def test_a_lock_is_found(tmp_path: Path, statement: str, rule: str) -> None:
    found = _find(tmp_path, {"new": f"{BEGIN}{statement};\nCOMMIT;\n"})
    assert rule in found["new"]


def test_a_migration_without_a_limit_for_locks_is_found(tmp_path: Path) -> None:
    sql = "BEGIN;\nALTER TABLE audits ADD COLUMN c int;\nCOMMIT;\n"
    assert _find(tmp_path, {"new": sql}) == {"new": {"require-lock-timeout"}}


def test_the_ways_around_them_pass(tmp_path: Path) -> None:
    sql = f"""{BEGIN}
    ALTER TABLE audits ADD COLUMN c int NOT NULL DEFAULT 0;
    ALTER TABLE audits ADD CONSTRAINT c CHECK (c >= 0) NOT VALID;
    CREATE TABLE t (id bigint PRIMARY KEY, c int NOT NULL);
    CREATE INDEX i ON t (c);
    COMMIT;
    DROP INDEX CONCURRENTLY IF EXISTS ix_audits_c;
    CREATE INDEX CONCURRENTLY IF NOT EXISTS ix_audits_c ON audits (c);
    {BEGIN}
    ALTER TABLE audits VALIDATE CONSTRAINT c;
    COMMIT;
    """
    assert _find(tmp_path, {"new": sql}) == {}
