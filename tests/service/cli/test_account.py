"""tallystick account, on the database in the environment."""

import json
from collections.abc import Callable
from datetime import date
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


def load_account(own_url: str, email: str) -> Account:
    engine = create_engine(own_url)
    with Session(engine, expire_on_commit=False) as session:
        account = session.scalars(select(Account).where(Account.email == email)).one()
    engine.dispose()
    return account


def test_an_account_gets_its_plan(run: Run, email: str, own_url: str) -> None:
    result = run("create", email.upper(), "--plan", "team", "--json")
    assert result.exit_code == 0
    account = load_account(own_url, email)
    assert json.loads(result.stdout) == {"account_id": account.id, "email": email, "plan": "team"}
    assert account.plan == "team"


def test_an_email_has_one_account(run: Run, email: str) -> None:
    run("create", email)
    again = run("create", email.upper())
    assert again.exit_code == 2
    assert again.stderr == f"Error: an account for {email.upper()} already exists\n"


@pytest.mark.parametrize(
    "email", ["", "no address", "a@b@c", "a@", "@b", "a\n@b", "a" * 255 + "@b"]
)
def test_an_address_that_is_none_is_rejected(run: Run, email: str) -> None:
    result = run("create", email)
    assert (result.exit_code, result.stderr) == (2, "Error: invalid email address\n")


def test_an_ingest_key_comes_with_its_dsn(run: Run, email: str, own_url: str) -> None:
    run("create", email, "--plan", "pro")
    minted = json.loads(run("mint", email, "ingest-key", "--json").stdout)
    assert set(minted) == {"ingest_key", "dsn"}
    assert minted["dsn"] == f"https://{minted['ingest_key']}@usage.example.com"
    secret_hash = tokens.find_hash(tokens.Kind.INGEST_KEY, minted["ingest_key"])
    engine = create_engine(own_url)
    with Session(engine) as session:
        key = session.scalars(select(IngestKey).where(IngestKey.secret_hash == secret_hash)).one()
        assert key.account.email == email
    engine.dispose()


def test_without_json_a_person_can_read_it(run: Run, email: str) -> None:
    run("create", email, "--plan", "pro")
    lines = run("mint", email, "ingest-key").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["ingest_key", "dsn"]


def test_the_free_plan_has_no_keys(run: Run, email: str) -> None:
    run("create", email)
    result = run("mint", email, "ingest-key")
    assert result.exit_code == 2
    assert result.stderr == "Error: the free plan doesn't include ingest keys\n"


def test_an_ingest_key_takes_no_scopes(run: Run, email: str) -> None:
    result = run("mint", email, "ingest-key", "--scope", "read:audits")
    assert result.exit_code == 2
    assert result.stderr == "Error: --scope and --expires-in-days apply to read tokens only\n"


def test_an_unknown_account_is_named(run: Run) -> None:
    result = run("mint", "nobody@example.com", "read-token")
    assert result.exit_code == 2
    assert result.stderr == "Error: there is no account for nobody@example.com\n"


def test_an_unavailable_database_is_reported_in_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://localhost:1/none")
    result = run("create", "a@example.com")
    assert (result.exit_code, result.stderr) == (75, "Error: can't connect to the database\n")


def test_a_missing_setting_is_reported_in_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SECRET_KEY")
    result = run("create", "a@example.com")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: SECRET_KEY is not set (")
    assert "--data DIR" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_read_token_takes_scopes_a_label_and_an_end(run: Run, email: str, own_url: str) -> None:
    run("create", email)
    options = ("--scope", "read:audits", "--label", " Grafana\tboard ", "--expires-in-days", "30")
    assert run("mint", email, "read-token", *options).exit_code == 0
    account = load_account(own_url, email)
    engine = create_engine(own_url)
    with Session(engine) as session:
        [row] = session.scalars(select(ReadToken).where(ReadToken.account_id == account.id))
    engine.dispose()
    assert (row.scopes, row.label) == (["read:audits"], "Grafana board")
    assert row.expires_at is not None
    assert (row.expires_at - row.created_at).days in (29, 30)


@pytest.mark.parametrize("days", ["0", "-1", "9999", "x"])
def test_an_end_is_a_number_of_days(run: Run, email: str, days: str) -> None:
    assert run("mint", email, "read-token", "--expires-in-days", days).exit_code == 2


def _expiry(own_url: str, email: str) -> float | None:
    """The days until the account's only read token expires."""
    engine = create_engine(own_url)
    account_id = load_account(own_url, email).id
    with Session(engine) as session:
        [row] = session.scalars(select(ReadToken).where(ReadToken.account_id == account_id))
    engine.dispose()
    if row.expires_at is None:
        return None
    return round((row.expires_at - row.created_at).total_seconds() / 86_400)


@pytest.mark.parametrize(("options", "days"), [((), 90), (("--never-expires",), None)])
def test_a_read_token_ends_after_ninety_days_unless_never_is_chosen(
    run: Run, email: str, own_url: str, options: tuple[str, ...], days: int | None
) -> None:
    run("create", email)
    assert run("mint", email, "read-token", *options).exit_code == 0
    assert _expiry(own_url, email) == days
    both = run("mint", email, "read-token", "--never-expires", "--expires-in-days", "3")
    assert both.exit_code == 2


def _add_one_of_each(own_url: str, email: str) -> None:
    engine, account_id = create_engine(own_url), load_account(own_url, email).id
    sessions = make_session_factory(engine)
    sign_in(sessions, email)
    add_token(sessions, add_application(sessions, account_id), account_id)
    with sessions() as session:
        issue_link(session, account_id, add_run(sessions, account_id))
        session.commit()
    engine.dispose()


def test_everything_that_reaches_an_account_is_listed_and_can_be_ended(
    run: Run, email: str, own_url: str
) -> None:
    run("create", email, "--plan", "pro")
    for kind in ("ingest-key", "read-token"):
        assert run("mint", email, kind).exit_code == 0
    _add_one_of_each(own_url, email)
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


def test_only_what_belongs_to_the_account_is_ended(run: Run, email: str, own_url: str) -> None:
    other = f"other-{email}"
    for address in (email, other):
        run("create", address, "--plan", "pro")
        assert run("mint", address, "ingest-key").exit_code == 0
    [theirs] = json.loads(run("access", other, "--json").output)
    refused = run("revoke", email, theirs["kind"], theirs["id"])
    assert refused.exit_code == 2
    assert "has no ingest-key with this ID" in refused.stderr
    assert json.loads(run("access", other, "--json").output) == [theirs]


def test_two_periods_of_an_account_are_compared(run: Run, email: str, own_url: str) -> None:
    run("create", email)
    account_id = load_account(own_url, email).id
    engine = create_engine(own_url)
    with Session(engine) as session:
        february = date(2026, 2, 1)
        lines = [
            spend_line(february, "10"),
            spend_line(FIRST, "15"),
            spend_line(FIRST, route="new"),
        ]
        add_spend(session, account_id, *lines)
    engine.dispose()
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


def test_calls_after_today_are_listed_and_deleted(run: Run, email: str, own_url: str) -> None:
    run("create", email)
    account_id = load_account(own_url, email).id
    engine, days = create_engine(own_url), [date(2034, 1, 2), date(2035, 1, 2)]
    with Session(engine) as session:
        brought = {"first_day": days[0], "last_day": days[1], "calls": 20, "content_hash": b""}
        session.add(CallImport(audit_id=email, account_id=account_id, import_id="a-1", **brought))
        add_spend(session, account_id, *(spend_line(day) for day in (FIRST, *days)))
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
    with Session(engine) as session:
        query = select(DeletedCalls.audit_id, DeletedCalls.first_day, DeletedCalls.last_day)
        assert session.execute(query).all() == [(email, date(2035, 1, 1), date.max)]
        kinds = select(SecurityEvent.kind).where(SecurityEvent.account_id == account_id)
        assert session.scalars(kinds).all() == ["future_calls_deleted"]
    engine.dispose()


def test_spans_that_wait_are_imported_on_request(run: Run, email: str, own_url: str) -> None:
    run("create", email)
    assert json.loads(run("flush", email, "--json").output) == {"calls": 0}
    engine, account_id = create_engine(own_url), load_account(own_url, email).id
    row = {"account_id": account_id, "calls": 3, "size": 1}
    with Session(engine) as session:
        session.add(SpanBatch(lines=b"x", keys=b"", links=b"", **row))
        session.commit()
        assert json.loads(run("flush", email, "--json").output) == {"calls": 3}
        assert find_waiting(session, account_id).is_requested
    engine.dispose()
    assert run("flush", "nobody@example.com").exit_code == 2
