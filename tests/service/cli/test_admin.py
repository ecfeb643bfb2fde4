"""tallystick admin: admin actions from a terminal are logged as such."""

import csv
import io
import json
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import Result
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.models import (
    Account,
    AdminAction,
    Audit,
    CallFile,
    EarlyAccess,
    Mail,
    Passkey,
    RecoveryCode,
    ReportRow,
    WebSession,
)
from service.models.base import utc_now
from service.models.identity.passkeys import replace_recovery_codes
from tests.service.support.documents import make_report
from tests.service.support.scenes import add_account

Run = Callable[..., Result]


@pytest.fixture
def run(invoke: Run) -> Run:
    """Runs `tallystick admin …`."""
    return partial(invoke, "admin")


@pytest.fixture
def audit(committed: Session, blobs: Path) -> Audit:
    account = add_account(committed)
    audit_id = uuid4().hex
    made = Audit(id=audit_id, account_id=account.id, source="upload", status="done", attempts=1)
    made.blob_key = f"raw/{audit_id}.jsonl"
    (blobs / "raw").mkdir()
    (blobs / made.blob_key).write_bytes(b"{}\n")
    committed.add(made)
    committed.commit()
    return made


def _acts(session: Session, target: str) -> list[tuple[str, str]]:
    query = select(AdminAction).where(AdminAction.target == target).order_by(AdminAction.id)
    return [(row.act, row.via) for row in session.scalars(query)]


def test_purge(run: Run, committed: Session, audit: Audit, blobs: Path) -> None:
    first, second = (run("purge", audit.id, "--json") for _ in range(2))
    assert json.loads(first.stdout) == {"audit_id": audit.id, "is_repeat": False}
    assert json.loads(second.stdout)["is_repeat"] is True
    assert not (blobs / audit.blob_key).exists()
    assert _acts(committed, audit.id) == [("purge", "command")] * 2


def test_rerun(run: Run, committed: Session, audit: Audit) -> None:
    result = run("rerun", audit.id)
    assert result.exit_code == 0
    assert "queued" in result.stdout
    again = run("rerun", audit.id)
    assert (again.exit_code, again.stderr.count("\n")) == (2, 1)
    assert "This audit is queued" in again.stderr
    assert _acts(committed, audit.id) == [("rerun", "command")]


def test_rerun_takes_all_that_failed_since_a_time(
    run: Run, committed: Session, audit: Audit, blobs: Path
) -> None:
    """Not older ones, and not those whose records are gone; of accounts, those of the latest."""
    own = {"account_id": audit.account_id, "status": "failed", "attempts": 3, "error": "gave up"}

    def add(minutes: int, source: str = "ingest", *, has_blob: bool = True) -> Audit:
        audit_id, at = uuid4().hex, utc_now() - timedelta(minutes=minutes)
        if has_blob:
            (blobs / f"raw/{audit_id}.jsonl").write_bytes(b"{}\n")
        key = f"raw/{audit_id}.jsonl"
        row = Audit(id=audit_id, source=source, blob_key=key, finished_at=at, **own)
        committed.add(row)
        return row

    failed = [add(minutes) for minutes in range(30)]
    kept = [add(95), add(5, "account"), add(5, has_blob=False)]
    kept[1].window_days = 30
    days = {"first_day": date(2026, 3, 1), "last_day": date(2026, 3, 1)}
    counts = {"calls": 7, "bytes": 1, "imports": 1, "duplicates": 0, "level": 0}
    committed.add(
        CallFile(account_id=audit.account_id, blob_key="store/a.parquet", **days, **counts)
    )
    committed.commit()
    result = run("rerun", "--failed-since", "90m", "--json")
    assert json.loads(result.stdout) == {"queued": 31, "purged": 1}
    of_account = select(Audit).where(Audit.source == "account", Audit.status == "queued")
    (new,) = committed.scalars(of_account).all()
    assert (new.account_id, new.window_days, new.records) == (audit.account_id, 30, 7)
    assert _acts(committed, new.id) == [("rerun", "command")]
    committed.expire_all()
    assert {row.status for row in failed} == {"queued"}
    assert {row.attempts - row.uncounted_attempts for row in failed} == {0}
    assert {row.status for row in kept} == {"failed"}
    assert _acts(committed, failed[0].id) == [("rerun", "command")]
    again = f"{utc_now() - timedelta(days=1):%Y-%m-%dT%H:%M}"
    assert run("rerun", "--failed-since", again).stdout.split() == ["queued", "1", "purged", "1"]


def test_what_cannot_be_done_is_reported_in_one_line(run: Run) -> None:
    for arguments in ((), ("x", "--failed-since", "1h"), ("--failed-since", "1")):
        assert run("rerun", *arguments).exit_code == 2, arguments
    unknown = {
        **{
            (act, uuid4().hex): "There is no audit with this ID."
            for act in ("purge", "rerun", "report")
        },
        ("sign-out", "nobody@example.com"): "there is no account for nobody@example.com",
    }
    for arguments, said in unknown.items():
        result = run(*arguments)
        assert (result.exit_code, result.stderr) == (2, f"Error: {said}\n"), arguments


def test_report(run: Run, audit: Audit, committed: Session, tmp_path: Path) -> None:
    nothing = run("report", audit.id)
    assert (nothing.exit_code, nothing.stderr) == (2, "Error: This audit has no report.\n")
    committed.add(ReportRow(audit_id=audit.id, document=make_report().to_json()))
    committed.commit()
    output = tmp_path / "report.pdf"
    assert run("report", audit.id, "--output", str(output)).exit_code == 0
    assert output.read_bytes().startswith(b"%PDF-")


def test_sign_out_ends_every_session(run: Run, committed: Session) -> None:
    account = add_account(committed)
    committed.add_all(WebSession.minted(account.id, days=30)[0] for _ in range(3))
    committed.commit()
    result = run("sign-out", account.email.upper(), "--json")
    assert json.loads(result.stdout) == {"email": account.email, "sessions_ended": 3}
    own = WebSession.account_id == account.id
    assert committed.scalars(select(WebSession).where(own)).all() == []
    assert _acts(committed, account.email) == [("sign-out", "command")]


def test_reset_passkeys_removes_the_second_factor_and_says_so(run: Run, committed: Session) -> None:
    account = add_account(committed)
    passkey = Passkey(account_id=account.id, name="Laptop", credential_id=b"x", sign_count=0)
    passkey.public_key = b""
    committed.add(passkey)
    replace_recovery_codes(committed, account.id)
    committed.commit()
    result = run("reset-passkeys", account.email, "--json")
    assert json.loads(result.stdout) == {"email": account.email, "passkeys_removed": 1}
    for table in (Passkey, RecoveryCode):
        assert committed.scalars(select(table).where(table.account_id == account.id)).all() == []
    mails = committed.scalars(select(Mail.parameters).where(Mail.recipient == account.email)).all()
    assert [mail["event"] for mail in mails] == ["admin_reset_passkeys"]
    assert _acts(committed, account.email) == [("reset-passkeys", "command")]


def test_mark_paid(run: Run, committed: Session) -> None:
    email, reference = f"{uuid4().hex}@example.com", uuid4().hex
    arguments = (email, "--provider", "comp", "--reference", reference, "--amount", "0", "--json")
    answers = [json.loads(run("mark-paid", *arguments).stdout) for _ in range(2)]
    assert [one["is_repeat"] for one in answers] == [False, True]
    assert _acts(committed, email) == [("mark-paid", "command")] * 2


def test_grant(run: Run, committed: Session) -> None:
    email = add_account(committed).email
    committed.commit()
    first = json.loads(run("grant", email, "--credits", "3", "--json").stdout)
    assert first == {"email": email, "granted": 3, "credits_left": 3}
    again = json.loads(run("grant", email.upper(), "--json").stdout)
    assert again == {"email": email, "granted": 1, "credits_left": 4}
    assert _acts(committed, email) == [("mark-paid", "command")] * 4


def test_audits_and_accounts_are_listed(run: Run, audit: Audit, committed: Session) -> None:
    listed = json.loads(run("audits", "--json").stdout)
    line = next(one for one in listed if one["id"] == audit.id)
    assert (line["status"], line["attempts"]) == ("done", 1)
    assert audit.id in run("audits").stdout
    email = committed.get_one(Account, audit.account_id).email
    assert email in run("accounts").stdout
    assert any(one["email"] == email for one in json.loads(run("accounts", "--json").stdout))


def test_early_access_is_listed_and_exported_with_inert_cells(run: Run, committed: Session) -> None:
    committed.merge(EarlyAccess(email="=1+1@example.com"))
    committed.commit()
    assert "=1+1@example.com" in run("early-access").stdout
    rows = list(csv.reader(io.StringIO(run("early-access", "--csv").stdout)))
    assert rows[0] == ["email", "asked_at"]
    assert "'=1+1@example.com" in [row[0] for row in rows]
    assert _acts(committed, "early_access")[-1] == ("early-access-export", "command")
