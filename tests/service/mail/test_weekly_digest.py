"""The weekly digest: once per account and week, and none for a week without calls or changes."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.config import Config
from service.mail.messages import compose
from service.models import Account, CallFile, Mail, SpendRow
from service.models.base import new_id
from service.models.calls.account_findings import AccountFinding, FindingChange, FindingRecord
from service.models.connections.unsent import replace_unsent
from service.models.mail.report_mails import WEEKLY_DIGEST
from service.models.watching.budgets import Budget
from service.operations.connections.coverage import find_unsent
from service.operations.findings.totals import track_totals
from service.operations.watching.weekly_digest import post_weekly_digests
from tests.service.connections.reports import TODAY, Reports
from tests.service.support.findings import add_account_finding
from tests.service.support.scenes import add_account
from tests.service.support.spend import add_plan_usage, add_spend, spend_line

MONDAY = date(2026, 3, 2)
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday
WEDNESDAY = MONDAY - timedelta(days=5)  # of the week before


@pytest.fixture
def account(db_session: Session) -> Account:
    account = add_account(db_session, email="ada@example.org", created_at=NOW - timedelta(days=60))
    db_session.commit()
    assert account.report_mails == "weekly"
    return account


def spend(session: Session, account: Account, day: date, usd: str) -> None:
    add_spend(session, account.id, spend_line(day, usd, route="evil.example"))


def add_finding(session: Session, account: Account, usd: str, **fields: Any) -> AccountFinding:
    moment = datetime.combine(WEDNESDAY, datetime.min.time(), UTC)
    figures = {"monthly_usd": Decimal(usd), "observed_usd": Decimal(usd)}
    own = {"detector": "d1_model_overkill", "kind": "", "route": "evil.example", **fields}
    times = {"first_seen": moment, "last_seen": moment}
    finding = add_account_finding(session, account.id, **own, **figures, **times)
    audit = {"audit_id": new_id(), "audited_at": moment, "calls": 1}
    session.add(FindingRecord(account_finding_id=finding.id, **audit, **figures))
    session.commit()
    return finding


def post(session: Session, now: datetime = NOW) -> list[Mail]:
    session.commit()
    connection = session.connection()
    # The fixture's connection is in a transaction; each account takes one of its own.
    post_weekly_digests(_Nested(connection), now)  # type: ignore[arg-type]
    session.commit()
    session.expire_all()
    return list(session.scalars(select(Mail).where(Mail.kind == WEEKLY_DIGEST)))


class _Nested:
    """A connection whose transactions are savepoints."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def begin(self) -> Any:
        return self._connection.begin_nested()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def text_of(config: Config, mail: Mail) -> tuple[str, str, str]:
    message = compose(config, mail)
    parts = [part.get_content() for part in message.iter_parts()]
    return str(message["Subject"]), " ".join(parts[0].split()), parts[1]


def test_a_week_ends_with_sunday_in_the_zone_of_the_account(
    db_session: Session, account: Account, config: Config
) -> None:
    """Monday begins in Los Angeles at 8:00 in UTC, with calls of Monday in UTC before it."""
    zone = account.time_zone = "America/Los_Angeles"
    spend(db_session, account, MONDAY, "5")  # on Sunday evening there
    spend(db_session, account, MONDAY - timedelta(days=7), "3")  # in the week before, there
    spend(db_session, account, WEDNESDAY, "1")
    for row in db_session.scalars(select(SpendRow).where(SpendRow.day != WEDNESDAY)):
        row.day_shift = -1
    for file in db_session.scalars(select(CallFile)):
        file.priced_with = f"1|2|{zone}"
    begin = datetime.combine(MONDAY, datetime.min.time(), UTC) + timedelta(hours=8)
    account.digest_sent_until = begin - timedelta(days=7)
    db_session.commit()
    assert post(db_session, begin - timedelta(minutes=1)) == []
    [mail] = post(db_session, begin + timedelta(minutes=1))
    assert post(db_session, NOW) == [mail]
    _, text, _ = text_of(config, mail)
    assert "You spent $6.00 last week" in text
    assert "Feb 23, 2026 to Mar 1, 2026, in Los Angeles time" in text
    assert "Days and months are in Los Angeles time." in text


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_digest_is_due_when_the_week_of_utc_is_over_too(
    db_session: Session, account: Account, config: Config, is_counted: bool
) -> None:
    """Monday begins in Auckland at 11:00 of Sunday in UTC, whose days spend has until counted."""
    zone = account.time_zone = "Pacific/Auckland"
    spend(db_session, account, WEDNESDAY, "1")
    spend(db_session, account, MONDAY - timedelta(days=1), "5")  # on Monday morning there
    for row in db_session.scalars(select(SpendRow).where(SpendRow.day != WEDNESDAY)):
        row.day_shift = 1
    if is_counted:
        for file in db_session.scalars(select(CallFile)):
            file.priced_with = f"1|2|{zone}"
    over = datetime.combine(MONDAY, datetime.min.time(), UTC)
    account.digest_sent_until = over - timedelta(days=7, hours=13)
    db_session.commit()
    assert post(db_session, over - timedelta(minutes=1)) == []
    [mail] = post(db_session, over)
    assert post(db_session, NOW) == [mail]
    whose, spent = ("Auckland time", "$1.00") if is_counted else ("UTC", "$6.00")
    mail.parameters = {**mail.parameters, "realized_usd": "2", "realized_total_usd": "3"}
    _, text, _ = text_of(config, mail)
    assert f"You spent {spent} last week Feb 23, 2026 to Mar 1, 2026, in {whose}" in text
    # The days of findings are those of UTC, whose week is over.
    of_days = " (UTC days)" if is_counted else ""
    assert f"Realized savings: $2.00 this week{of_days}, $3.00 since your fixes." in text


def test_it_says_what_was_spent_found_and_fixed(
    db_session: Session, account: Account, config: Config
) -> None:
    spend(db_session, account, WEDNESDAY, "150")
    spend(db_session, account, WEDNESDAY - timedelta(days=7), "100")
    spend(db_session, account, MONDAY, "900")  # of the next week
    add_finding(db_session, account, "40")
    fixed = add_finding(db_session, account, "90", state="fixed")
    change = {"changed_by": "", "before": "open", "after": "fixed"}
    at = datetime.combine(WEDNESDAY, datetime.min.time(), UTC)
    db_session.add(FindingChange(account_finding_id=fixed.id, changed_at=at, **change))
    db_session.add(Budget(account_id=account.id, route=None, amount_usd=Decimal(1000)))
    [mail] = post(db_session)
    subject, text, html = text_of(config, mail)
    assert subject == "Your week: $150.00 (+50%)"
    for expected in (
        "You spent $150.00 last week Feb 23, 2026 to Mar 1, 2026, in UTC",
        "+50% from $100.00 the week before.",
        "* Oversized model: $40/month, estimated",
        "Findings this week: 2 new, 1 fixed.",
        "Your account, Mar 2026: $900.00 of $1,000.00 spent (90%)",
        f"{config.base_url}/dashboard",
        f"Change your notification settings: {config.base_url}/settings",
    ):
        assert expected in text
    assert "$90/" not in text
    assert "<h1" in html
    assert "evil" not in text + html + subject


def test_it_goes_out_once_a_week(db_session: Session, account: Account) -> None:
    spend(db_session, account, WEDNESDAY, "1")
    spend(db_session, account, MONDAY, "1")
    assert len(post(db_session)) == 1
    assert len(post(db_session, NOW + timedelta(days=4))) == 1
    assert len(post(db_session, NOW + timedelta(days=7))) == 2
    # A claim that another process has already posted adds no second mail.
    account.digest_sent_until = None
    assert len(post(db_session, NOW + timedelta(days=7))) == 2


def test_a_week_in_which_nothing_happened_has_none(db_session: Session, account: Account) -> None:
    spend(db_session, account, MONDAY, "1")
    spend(db_session, account, WEDNESDAY - timedelta(days=14), "1")
    assert post(db_session) == []


def test_accounts_that_chose_otherwise_get_none(db_session: Session, account: Account) -> None:
    spend(db_session, account, WEDNESDAY, "1")
    for choice in ("each", "daily", "none"):
        account.report_mails = choice
        assert post(db_session) == [], choice


def test_plan_usage_has_a_line_of_its_own_and_is_in_no_sum(
    db_session: Session, account: Account, config: Config
) -> None:
    line = spend_line(WEDNESDAY, "24.5", calls=3)
    add_plan_usage(db_session, account.id, line)
    [mail] = post(db_session)
    subject, text, html = text_of(config, mail)
    said = "Plan usage: 3 calls are included in a plan: their value is $24.50. No other figure"
    assert said in text
    assert said in " ".join(html.split())
    assert "$24.50" not in subject + text.replace(said, "")
    assert "You spent $0.00 last week" in text
    for name in ("plan_calls", "plan_value_usd"):  # as an earlier release posted it
        del mail.parameters[name]
    assert "Plan usage" not in text_of(config, mail)[1]


def test_findings_of_provider_totals_are_in_it_and_say_so(
    db_session: Session, config: Config
) -> None:
    """With no call sent: GPT-4 is $30 and $60 a million tokens, GPT-4.1 is $2 and $8."""
    reports = Reports(db_session, "openai")
    reports.add("gpt-4-0613", "key_1", prompt_tokens=1_000_000, completion_tokens=100_000)
    connection, account_id = db_session.connection(), reports.account_id
    unsent = find_unsent(connection, account_id, "openai", (TODAY - timedelta(days=30), TODAY))
    replace_unsent(connection, account_id, "openai", unsent)
    track_totals(connection, account_id, "openai", TODAY)
    account = db_session.get_one(Account, account_id)
    account.created_at = datetime(2026, 11, 1, tzinfo=UTC)
    [mail] = post(db_session, datetime(2026, 11, 25, tzinfo=UTC))
    _subject, text, html = text_of(config, mail)
    assert "You spent $4.00 last week" in text  # what the provider reports, of four days
    assert "up to $332/month, conditional, from provider totals" in text, text
    assert "from provider totals" in " ".join(html.split())
    assert "gpt-4-0613" not in text + html  # labels are other people's text
