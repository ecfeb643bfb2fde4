"""tallystick account, on the database in the environment."""

import json
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from uuid import uuid4

import pytest
from click.testing import Result
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session

from service.core import tokens
from service.core.db import make_session_factory
from service.models import (
    Account,
    CallImport,
    DeletedCalls,
    IngestKey,
    ReadToken,
    SecurityEvent,
    SpanBatch,
)
from service.models.audits.report_links import issue_link
from service.models.imports.span_batches import find_waiting
from tests.service.support.oauth_flow import add_application, add_token
from tests.service.support.scenes import sign_in
from tests.service.support.spend import FIRST, add_spend, spend_line
from tests.service.web.pages.scenes import add_run

Run = Callable[..., Result]


@pytest.fixture
def run(invoke: Run) -> Run:
    """Runs `tallystick account …`."""
    return partial(invoke, "account")


@pytest.fixture
def email() -> str:
    return f"{uuid4().hex}@example.com"


def load_account(session: Session, email: str) -> Account:
    return session.scalars(select(Account).where(Account.email == email)).one()


def test_an_account_gets_its_plan(run: Run, email: str, committed: Session) -> None:
    result = run("create", email.upper(), "--plan", "team", "--json")
    assert result.exit_code == 0
    account = load_account(committed, email)
    assert json.loads(result.stdout) == {"account_id": account.id, "email": email, "plan": "team"}
    assert account.plan == "team"


def test_what_cannot_be_made_is_refused_in_one_line(run: Run, email: str) -> None:
    run("create", email)
    no_addresses = ("", "no address", "a@b@c", "a@", "@b", "a\n@b", "a" * 255 + "@b")
    refused: dict[tuple[str, ...], str] = {
        ("create", email.upper()): f"an account for {email.upper()} already exists",
        **{("create", each): "invalid email address" for each in no_addresses},
        ("mint", email, "ingest-key"): "the free plan doesn't include ingest keys",
        ("mint", email, "ingest-key", "--scope", "read:audits"): (
            "--scope and --expires-in-days apply to read tokens only"
        ),
        ("mint", "nobody@example.com", "read-token"): "there is no account for nobody@example.com",
    }
    for arguments, said in refused.items():
        result = run(*arguments)
        assert (result.exit_code, result.stderr) == (2, f"Error: {said}\n"), arguments
    for ends in (("0",), ("-1",), ("9999",), ("x",), ("3", "--never-expires")):
        assert run("mint", email, "read-token", "--expires-in-days", *ends).exit_code == 2


def test_an_ingest_key_comes_with_its_dsn(run: Run, email: str, committed: Session) -> None:
    run("create", email, "--plan", "pro")
    minted = json.loads(run("mint", email, "ingest-key", "--json").stdout)
    assert set(minted) == {"ingest_key", "dsn"}
    assert minted["dsn"] == f"https://{minted['ingest_key']}@usage.example.com"
    secret_hash = tokens.find_hash(tokens.Kind.INGEST_KEY, minted["ingest_key"])
    key = committed.scalars(select(IngestKey).where(IngestKey.secret_hash == secret_hash)).one()
    assert key.account.email == email
    # Without --json, a person can read it.
    lines = run("mint", email, "ingest-key").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ingest_key", "dsn"]


def test_what_is_missing_is_reported_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://localhost:1/none")
    result = run("create", "a@example.com")
    assert (result.exit_code, result.stderr) == (75, "Error: can't connect to the database\n")
    monkeypatch.delenv("SECRET_KEY")
    result = run("create", "a@example.com")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: SECRET_KEY is not set (")
    assert "--data DIR" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_read_token_takes_scopes_a_label_and_an_end(
    run: Run, email: str, committed: Session
) -> None:
    run("create", email)
    chosen = ("--scope", "read:audits", "--label", " Grafana\tboard ", "--expires-in-days", "30")
    for options in (chosen, (), ("--never-expires",)):
        assert run("mint", email, "read-token", *options).exit_code == 0
    own = ReadToken.account_id == load_account(committed, email).id
    rows = committed.scalars(select(ReadToken).where(own).order_by(ReadToken.created_at)).all()
    assert (rows[0].scopes, rows[0].label) == (["read:audits"], "Grafana board")
    ends = [row.expires_at and row.expires_at - row.created_at for row in rows]
    assert [end and round(end / timedelta(days=1)) for end in ends] == [30, 90, None]


def test_everything_that_reaches_an_account_is_listed_and_can_be_ended(
    run: Run, email: str, own_url: str, committed: Session
) -> None:
    run("create", email, "--plan", "pro")
    for kind in ("ingest-key", "read-token"):
        assert run("mint", email, kind).exit_code == 0
    engine, account_id = create_engine(own_url), load_account(committed, email).id
    sessions = make_session_factory(engine)
    sign_in(sessions, email)
    add_token(sessions, add_application(sessions, account_id), account_id)
    issue_link(committed, account_id, add_run(sessions, account_id))
    committed.commit()
    engine.dispose()
    listed = json.loads(run("access", email, "--json").output)
    kinds = [row["kind"] for row in listed]
    own = ["ingest-key", "read-token", "session", "application", "authorization", "report-link"]
    assert kinds == own
    assert all(kind in run("access", email).output for kind in own)
    for row in sorted(listed, key=lambda row: row["kind"] == "application"):
        ended = ("revoke", email, row["kind"], row["id"])
        assert run(*ended).exit_code == 0, row
        # A revoked link's row stays.
        assert run(*ended).exit_code == (0 if row["kind"] == "report-link" else 2)
    assert json.loads(run("access", email, "--json").output) == []


def test_only_what_belongs_to_the_account_is_ended(run: Run, email: str) -> None:
    other = f"other-{email}"
    for address in (email, other):
        run("create", address, "--plan", "pro")
        assert run("mint", address, "ingest-key").exit_code == 0
    [theirs] = json.loads(run("access", other, "--json").output)
    refused = run("revoke", email, theirs["kind"], theirs["id"])
    assert refused.exit_code == 2
    assert "has no ingest-key with this ID" in refused.stderr
    assert json.loads(run("access", other, "--json").output) == [theirs]


def test_two_periods_of_an_account_are_compared(run: Run, email: str, committed: Session) -> None:
    run("create", email)
    lines = [spend_line(date(2026, 2, 1), "10"), spend_line(FIRST, "15")]
    lines.append(spend_line(FIRST, route="new"))
    add_spend(committed, load_account(committed, email).id, *lines)
    months = ("--from", "2026-03-01", "--to", "2026-03-28")
    printed = " ".join(run("compare", email, *months).output.split())
    assert "chat $10.00 $15.00 +$5.00 +50%" in printed
    assert "new $0.00 $1.50 +$1.50 New" in printed
    found = json.loads(run("compare", email, *months, "--json").output)
    assert (found["kind"], found["total"]["change_usd"]) == ("periods", 6.5)
    assert "such as 2026-03-01" in run("compare", email, "--from", "March").stderr
    wrong = run("compare", email, "--from", "2026-03-02", "--to", "2026-03-01")
    assert wrong.exit_code != 0
    assert "The first day must not be after the last." in wrong.stderr


def test_calls_after_today_are_listed_and_deleted(run: Run, email: str, committed: Session) -> None:
    run("create", email)
    account_id = load_account(committed, email).id
    days = [date(2034, 1, 2), date(2035, 1, 2)]
    brought = {"first_day": days[0], "last_day": days[1], "calls": 20, "content_hash": b""}
    committed.add(CallImport(audit_id=email, account_id=account_id, import_id="a-1", **brought))
    add_spend(committed, account_id, *(spend_line(day) for day in (FIRST, *days)))
    printed = run("future-calls", email).output.splitlines()
    assert printed == [
        "2034-01-02: 10 calls, $1.50, chat, gpt-5.5",
        "2035-01-02: 10 calls, $1.50, chat, gpt-5.5",
        "20 calls dated after today, $3.00",
    ]
    listed = json.loads(run("future-calls", email, "--json").output)
    assert (listed["calls"], [line["day"] for line in listed["lines"]]) == (
        20,
        list(map(str, days)),
    )
    last = run("delete-future-calls", email, "--from", "2035-01-01", "--json")
    assert json.loads(last.output) == {"deleted_calls": 10}
    assert run("delete-future-calls", email, "--to", "2033-12-31").output.split()[-1] == "0"
    assert "such as 2026-03-01" in run("delete-future-calls", email, "--from", "soon").stderr
    query = select(DeletedCalls.audit_id, DeletedCalls.first_day, DeletedCalls.last_day)
    assert committed.execute(query).all() == [(email, date(2035, 1, 1), date.max)]
    kinds = select(SecurityEvent.kind).where(SecurityEvent.account_id == account_id)
    assert committed.scalars(kinds).all() == ["future_calls_deleted"]


def test_spans_that_wait_are_imported_on_request(run: Run, email: str, committed: Session) -> None:
    run("create", email)
    assert json.loads(run("flush", email, "--json").output) == {"calls": 0}
    account_id = load_account(committed, email).id
    row = {"account_id": account_id, "calls": 3, "size": 1}
    committed.add(SpanBatch(lines=b"x", keys=b"", links=b"", **row))
    committed.commit()
    assert json.loads(run("flush", email, "--json").output) == {"calls": 3}
    assert find_waiting(committed, account_id).is_requested
    assert run("flush", "nobody@example.com").exit_code == 2
