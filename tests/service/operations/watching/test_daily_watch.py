"""Accounts are watched in transactions of their own: every notice is posted once, with its mail."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import Engine, create_engine, delete, func, select, text, update
from sqlalchemy.exc import IntegrityError

from service.config import Config
from service.mail.messages import compose
from service.models import (
    Account,
    AccountWatch,
    Budget,
    BudgetNotice,
    CallFile,
    Mail,
    NoticeDelivery,
    UnusualDay,
)
from service.models.calls.account_audits import AccountCalls, note_imports
from service.models.calls.daily_spend import SpendRow
from service.models.notices.events import BUDGET_REACHED, EVENTS, UNUSUAL_SPEND
from service.models.notices.targets import WEBHOOK, NewTarget, add_target
from service.models.watching.budgets import save_budget
from service.models.watching.watches import judge_again
from service.operations.watching.daily_watch import check_budgets, watch_days
from service.operations.watching.unusual_days import Band, UnusualSpend
from service.operations.watching.wording import describe_day
from tests.databases import as_owner
from tests.service.support.scenes import Sessions, add_account
from tests.service.support.spend import add_spend, spend_line

NOW = datetime(2026, 9, 15, 12, tzinfo=UTC)
TODAY = NOW.date()
YESTERDAY = TODAY - timedelta(days=1)
NEXT_DAY = NOW + timedelta(days=1)
# Too late in the history for a forecast.
RECENTLY = TODAY - timedelta(days=3)


@dataclass
class Watched:
    """An account in a database of its own, with a webhook that wants every event."""

    sessions: Sessions
    account_id: str

    @property
    def engine(self) -> Engine:
        engine = self.sessions.kw["bind"]
        assert isinstance(engine, Engine)
        return engine

    def spend(self, *lines: dict[str, Any]) -> None:
        with self.sessions() as session:
            add_spend(session, self.account_id, *lines)

    def spend_daily(self, usd: str, days: int = 60, last: date = YESTERDAY) -> None:
        past = (last - timedelta(days=back) for back in range(days))
        self.spend(*(spend_line(day, usd) for day in past))

    def budget(self, usd: str, route: str | None = None) -> None:
        with self.sessions() as session:
            save_budget(session, self.account_id, route, Decimal(usd))
            session.commit()

    def watch(self, now: datetime = NOW) -> int:
        with self.engine.connect() as connection:
            return watch_days(connection, now)

    def check(self, now: datetime = NOW) -> int:
        """Check the budgets as if they had not been checked within the hour."""
        with self.engine.begin() as connection:
            connection.execute(update(AccountWatch).values(budgets_checked_at=None))
        with self.engine.connect() as connection:
            return check_budgets(connection, now)

    def notices(self, event_type: str) -> list[dict[str, Any]]:
        query = select(NoticeDelivery.payload).where(NoticeDelivery.event_type == event_type)
        with self.sessions() as session:
            return list(session.scalars(query.order_by(NoticeDelivery.created_at)))

    def mails(self) -> list[Mail]:
        with self.sessions() as session:
            return list(session.scalars(select(Mail).order_by(Mail.created_at)))

    def count(self, table: type[Any]) -> int:
        with self.sessions() as session:
            return session.scalar(select(func.count()).select_from(table)) or 0


@pytest.fixture
def watched(own_sessions: Sessions) -> Iterator[Watched]:
    with own_sessions() as session:
        account = add_account(session, email="ada@example.org")
        url = "https://hooks.example.com/x"
        add_target(session, account.id, NewTarget(WEBHOOK, url, list(EVENTS)))
        session.commit()
        yield Watched(own_sessions, account.id)


def _text(config: Config, mail: Mail) -> tuple[str, str]:
    message = compose(config, mail)
    body = message.get_body(("plain",))
    assert body is not None
    return str(message["Subject"]), str(body.get_content())


def test_an_unusual_day_is_one_notice_and_one_mail(watched: Watched, config: Config) -> None:
    watched.spend_daily("10")
    watched.spend(spend_line(YESTERDAY, "90"))
    assert watched.watch() == 1
    assert watched.watch() == 0  # once a day
    watched.watch(NEXT_DAY)
    [notice] = watched.notices(UNUSUAL_SPEND)
    assert notice["day"] == YESTERDAY.isoformat()
    assert [(each["scope"], each["name"]) for each in notice["series"]] == [
        ("account", None),
        ("route", "chat"),
        ("model", "gpt-5.5"),
    ]
    assert notice["series"][0] | {"upper_usd": 0} == {
        "scope": "account",
        "name": None,
        "spend_usd": 100.0,
        "expected_usd": 10.0,
        "upper_usd": 0,
    }
    assert notice["summary"].startswith("You spent $100.00 (usually about $10.00) on ")
    assert (
        "Route “chat” cost $100.00 (usually about $10.00). 1 other route or model too."
        in (notice["summary"])
    )
    shown = urlencode({"from": YESTERDAY - timedelta(days=27), "to": YESTERDAY})
    assert notice["path"] == f"/spend?{shown}"  # of the whole account, which was unusual
    [mail] = watched.mails()
    subject, body = _text(config, mail)
    assert f"{config.base_url}/spend?{shown}" in body
    assert subject.startswith("Unusual spend on ")
    assert "$100.00 in total, usually about $10.00; 1 route and 1 model far above" in body
    assert "chat" not in body  # a leaked ingest key could write labels


def test_days_end_and_are_judged_in_the_zone_of_the_account(
    watched: Watched, config: Config
) -> None:
    """Half an hour into September 16 in Auckland, a little over an hour ago its 15th was over."""
    zone, local = "Pacific/Auckland", date(2026, 9, 15)
    with watched.sessions() as session:
        session.execute(update(Account).values(time_zone=zone))
        session.commit()
    utc_days = [local - timedelta(days=back + 1) for back in range(60)]
    watched.spend(*(spend_line(day, "10", day_shift=1) for day in utc_days))
    watched.spend(spend_line(utc_days[0], "90", day_shift=1))
    with watched.sessions() as session:
        session.execute(update(CallFile).values(priced_with=f"1|2|{zone}"))
        session.commit()
    over = datetime(2026, 9, 15, 13, 5, tzinfo=UTC)
    assert watched.watch(over - timedelta(minutes=10)) == 1  # the 14th
    assert _unusual_days(watched) == []
    assert watched.watch(over) == 1
    assert watched.watch(over) == 0
    assert _unusual_days(watched) == [local]
    [notice] = watched.notices(UNUSUAL_SPEND)
    assert (notice["day"], notice["time_zone"]) == (local.isoformat(), zone)
    ends = notice["begins_at"], notice["ends_at"]
    assert ends == ("2026-09-14T12:00:00Z", "2026-09-15T12:00:00Z")
    assert "on Sep 15, 2026 (Auckland time)." in notice["summary"]
    [mail] = watched.mails()
    assert "Days and months are in Auckland time." in _text(config, mail)[1]


def test_an_unusual_day_that_another_zone_moves_is_no_news(watched: Watched) -> None:
    """What was on September 12 in UTC is on the 13th in Auckland; the 15th is unusual in itself."""
    zone, first = "Pacific/Auckland", date(2026, 9, 12)
    utc_days = [TODAY - timedelta(days=back + 1) for back in range(60)]
    watched.spend(*(spend_line(day, "10", day_shift=1) for day in utc_days))
    watched.spend(spend_line(first, "90", day_shift=1))
    watched.watch()
    watched.spend(spend_line(YESTERDAY, "90", day_shift=1))
    _change_zone(watched, zone)
    watched.watch(NOW + timedelta(days=1))
    assert _unusual_days(watched) == [first + timedelta(days=1), TODAY]
    found = [(each["day"], each["time_zone"]) for each in watched.notices(UNUSUAL_SPEND)]
    assert found == [(first.isoformat(), "UTC"), (TODAY.isoformat(), zone)]
    bodies = [[day["day"] for day in mail.parameters["days"]] for mail in watched.mails()]
    assert bodies == [[first.isoformat()], [TODAY.isoformat()]]


def test_a_budget_has_the_month_of_the_zone(watched: Watched) -> None:
    """In UTC while its calls are being counted, and then September's last hours in Honolulu."""
    zone, now = "Pacific/Honolulu", datetime(2026, 10, 1, 9, 30, tzinfo=UTC)
    with watched.sessions() as session:
        session.execute(update(Account).values(time_zone=zone))
        session.commit()
    watched.spend(spend_line(date(2026, 10, 1), "60", day_shift=-1))
    watched.budget("100")
    watched.check(now)
    with watched.sessions() as session:
        session.execute(update(CallFile).values(priced_with=f"1|2|{zone}"))
        session.commit()
    watched.check(now)
    found = [
        [notice[name] for name in ("month", "time_zone", "begins_at", "ends_at")]
        for notice in watched.notices(BUDGET_REACHED)
    ]
    assert found == [
        ["2026-10", "UTC", "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"],
        ["2026-09", zone, "2026-09-01T10:00:00Z", "2026-10-01T10:00:00Z"],
    ]
    summaries = (notice["summary"] for notice in watched.notices(BUDGET_REACHED))
    assert [each.rpartition("for ")[2] for each in summaries] == [
        "Oct 2026 (UTC).",
        "Sep 2026 (Honolulu time).",
    ]


def test_a_mail_says_which_spend_is_by_utc_day(watched: Watched, config: Config) -> None:
    zone, rest = "Pacific/Auckland", "Spend without stored calls is by UTC day."
    watched.budget("100")
    for usd, has_utc_days in (("60", False), ("30", True)):
        watched.spend(spend_line(TODAY, usd))
        with watched.sessions() as session:
            session.execute(update(Account).values(time_zone=zone))
            session.execute(update(CallFile).values(priced_with=f"1|2|{zone}"))
            session.execute(delete(Mail))
            if has_utc_days:
                reported = {"replaced_at": NOW, "purged_at": NOW, "last_day": TODAY}
                session.execute(update(CallFile).values(priced_with=None, **reported))
                session.commit()
                watched.spend(spend_line(TODAY, "0"))
                live = CallFile.replaced_at.is_(None)
                session.execute(update(CallFile).where(live).values(priced_with=f"1|2|{zone}"))
            session.commit()
        watched.check()
        [mail] = watched.mails()
        body = " ".join(_text(config, mail)[1].split())
        assert "Days and months are in Auckland time. " in body
        assert (rest in body) is has_utc_days
        html = compose(config, mail).get_body(("html",))
        assert html is not None
        assert (rest in html.get_content()) is has_utc_days


def test_a_budget_that_waits_for_its_mail_is_checked_again_in_another_zone(
    watched: Watched, config: Config
) -> None:
    """The day's mail is gone when 80% are reached. By the next, the account has another zone."""
    zone, first = "Pacific/Auckland", TODAY.replace(day=1)
    watched.budget("100")
    watched.spend(spend_line(RECENTLY, "60"))
    watched.check()
    watched.spend(spend_line(first - timedelta(days=1), "25", day_shift=1))
    watched.spend(spend_line(RECENTLY, "20"))
    watched.check()
    assert len(watched.mails()) == 1
    _change_zone(watched, zone)
    watched.check(NEXT_DAY)
    body = _text(config, watched.mails()[-1])[1]
    assert "$105.00 of $100.00 spent (105%)" in body
    assert "$80.00" not in body
    assert "Days and months are in Auckland time." in body
    # What a webhook has had is not sent again.
    found = [notice["threshold"] for notice in watched.notices(BUDGET_REACHED)]
    assert len(found) == len(set(found))


def _change_zone(watched: Watched, zone: str) -> None:
    with watched.sessions() as session:
        session.execute(update(Account).values(time_zone=zone))
        session.execute(update(CallFile).values(priced_with=f"1|2|{zone}"))
        judge_again(session.connection(), watched.account_id)
        session.commit()


def test_a_budget_of_last_month_keeps_its_mail_in_another_zone(
    watched: Watched, config: Config
) -> None:
    """All of September's is spent on its last day, after the mail; no check looks at it again."""
    last = datetime(2026, 9, 30, 12, tzinfo=UTC)
    watched.budget("100")
    watched.spend(spend_line(last.date() - timedelta(days=3), "60"))
    watched.check(last)
    watched.spend(spend_line(last.date(), "50"))
    watched.check(last + timedelta(hours=2))
    assert len(watched.mails()) == 1
    _change_zone(watched, "Europe/Berlin")
    watched.check(last + timedelta(hours=14))
    assert "$110.00 of $100.00 spent (110%)" in _text(config, watched.mails()[1])[1]


def test_no_mail_has_what_is_by_days_of_the_zone_before(watched: Watched) -> None:
    """First an unusual day waits for its mail, then a budget."""
    watched.spend_daily("10")
    watched.budget("1000")
    watched.budget("1", "chat")
    watched.check()
    watched.spend(spend_line(YESTERDAY, "90"))
    watched.watch()
    _change_zone(watched, "Pacific/Auckland")
    watched.check(NEXT_DAY)
    assert len(watched.mails()) == 1
    watched.watch(NEXT_DAY)
    assert [len(mail.parameters["days"]) for mail in watched.mails()] == [0, 1]
    watched.spend(spend_line(RECENTLY, "500"))
    watched.check(NEXT_DAY)
    _change_zone(watched, "Europe/Berlin")
    later = NEXT_DAY + timedelta(days=1)
    watched.watch(later)
    assert len(watched.mails()) == 2
    watched.check(later)
    assert watched.mails()[2].parameters["whose"] == "Berlin time"


def _unusual_days(watched: Watched) -> list[date]:
    with watched.sessions() as session:
        return list(session.scalars(select(UnusualDay.day).order_by(UnusualDay.day)))


def test_every_day_of_an_import_is_judged_and_old_ones_are_no_news(watched: Watched) -> None:
    """A log of ten months that ended 30 days ago, with a peak in its middle and one at its end."""
    last = TODAY - timedelta(days=30)
    watched.spend_daily("10", days=300, last=last)
    peaks = [last - timedelta(days=150), last - timedelta(days=2)]
    watched.spend(*(spend_line(day, "90") for day in peaks))
    with watched.engine.begin() as connection:
        note_imports(connection, [watched.account_id])
        connection.execute(update(AccountCalls).values(last_import_at=NOW - timedelta(hours=1)))
    assert watched.watch() == 1
    assert _unusual_days(watched) == peaks
    assert (watched.notices(UNUSUAL_SPEND), watched.mails()) == ([], [])
    assert watched.watch() == 0  # nothing came since


def _import_again(watched: Watched) -> None:
    with watched.engine.begin() as connection:
        note_imports(connection, [watched.account_id])
        earlier = func.now() - timedelta(hours=2)
        connection.execute(update(AccountWatch).values(judged_at=earlier))
        connection.execute(update(AccountCalls).values(last_import_at=earlier + timedelta(hours=1)))


def test_a_day_whose_spend_is_gone_is_no_longer_unusual(watched: Watched) -> None:
    """As when calls arrive for what only a provider's report had."""
    day = YESTERDAY - timedelta(days=20)
    watched.spend_daily("10")
    watched.spend(spend_line(day, "90"))
    watched.watch()
    assert _unusual_days(watched) == [day]
    with watched.engine.begin() as connection:
        connection.execute(delete(SpendRow).where(SpendRow.day == day))
    _import_again(watched)
    assert watched.watch() == 1
    assert _unusual_days(watched) == []


def test_a_later_import_judges_the_days_that_it_changes(watched: Watched) -> None:
    day = YESTERDAY - timedelta(days=20)
    watched.spend_daily("10")
    watched.spend(spend_line(day, "90"))
    watched.watch()
    assert _unusual_days(watched) == [day]
    # What was missing from the other days comes late: the day is as usual as they are.
    watched.spend_daily("90", days=90)
    _import_again(watched)
    assert watched.watch() == 1
    assert _unusual_days(watched) == []


def test_a_usual_day_is_no_news_and_one_that_comes_late_is_found(watched: Watched) -> None:
    watched.spend_daily("10")
    assert watched.watch() == 1
    assert (watched.notices(UNUSUAL_SPEND), watched.mails()) == ([], [])
    # A day that is uploaded two days late is found.
    watched.spend(spend_line(YESTERDAY, "90"))
    watched.spend(spend_line(TODAY, "10"))
    watched.watch(NEXT_DAY)
    assert [each["day"] for each in watched.notices(UNUSUAL_SPEND)] == [YESTERDAY.isoformat()]


def test_a_day_is_not_judged_before_it_is_over_for_an_hour(watched: Watched) -> None:
    watched.spend_daily("10")
    watched.spend(spend_line(YESTERDAY, "90"))
    midnight = datetime.combine(TODAY, time(), UTC)
    watched.watch(midnight + timedelta(minutes=59))
    assert watched.notices(UNUSUAL_SPEND) == []
    watched.watch(midnight + timedelta(minutes=61))
    assert len(watched.notices(UNUSUAL_SPEND)) == 1


def test_a_crash_before_the_commit_leaves_nothing_and_the_next_try_does_all(
    watched: Watched, own_database: Config
) -> None:
    watched.spend_daily("10")
    watched.spend(spend_line(YESTERDAY, "90"))
    refuse = "ALTER TABLE mails ADD CONSTRAINT refused CHECK (false) NOT VALID"
    owner = create_engine(as_owner(own_database.database_url))
    with owner.begin() as connection:
        connection.execute(text(refuse))
    with pytest.raises(IntegrityError):
        watched.watch()
    assert [watched.count(each) for each in (UnusualDay, NoticeDelivery, AccountWatch)] == [0] * 3
    with owner.begin() as connection:
        connection.execute(text("ALTER TABLE mails DROP CONSTRAINT refused"))
    owner.dispose()
    watched.watch()
    assert [watched.count(each) for each in (UnusualDay, NoticeDelivery, Mail)] == [1] * 3


def test_two_processes_at_once_post_everything_once(watched: Watched) -> None:
    watched.spend_daily("10")
    watched.spend(spend_line(YESTERDAY, "90"))
    watched.budget("1")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _number: watched.watch(), range(4)))
        list(threads.map(lambda _number: watched.check(), range(4)))
    assert [watched.count(each) for each in (UnusualDay, Mail)] == [1, 1]
    assert len(watched.notices(UNUSUAL_SPEND)) == len(watched.notices(BUDGET_REACHED)) == 1


def test_each_threshold_of_a_budget_is_posted_once_per_month(watched: Watched) -> None:
    watched.budget("100")
    reached = []
    for usd in ("49", "1", "1", "40", "20", "50"):
        watched.spend(spend_line(RECENTLY, usd))
        for _ in range(2):
            watched.check()
        reached.append([each["threshold"] for each in watched.notices(BUDGET_REACHED)])
    assert reached == [[], ["50"], ["50"], ["50", "80"], ["50", "80", "100"], ["50", "80", "100"]]
    october = date(2026, 10, 2)
    watched.spend(spend_line(october, "60"))
    watched.check(datetime.combine(october, time(12), UTC))
    assert len(watched.notices(BUDGET_REACHED)) == 4


def test_the_notice_of_an_unusual_route_leads_to_that_route() -> None:
    band = Band(expected=Decimal(10), upper=Decimal(13))
    series = [
        UnusualSpend(scope=scope, name="chat", usd=Decimal(40), band=band)
        for scope in ("route", "model")
    ]
    path = describe_day(date(2026, 9, 14), series)["path"]
    assert path == "/spend?from=2026-08-18&to=2026-09-14&route=chat"


def test_several_thresholds_at_once_are_one_notice_until_the_amount_changes(
    watched: Watched,
) -> None:
    watched.budget("100")
    watched.spend(spend_line(RECENTLY, "120"))
    watched.check()
    [notice] = watched.notices(BUDGET_REACHED)
    assert watched.count(BudgetNotice) == 3
    assert notice["summary"] == (
        "$120.00 spent, 120% of the $100.00 budget of your account for Sep 2026 (UTC)."
    )
    assert (notice["threshold"], notice["month"], notice["route"]) == ("100", "2026-09", None)
    # A changed amount can be reached again.
    watched.budget("200")
    watched.check()
    notices = watched.notices(BUDGET_REACHED)
    assert [(each["threshold"], each["amount_usd"]) for each in notices] == [
        ("100", 100.0),
        ("50", 200.0),
    ]
    assert watched.count(Budget) == 1


def test_a_forecast_above_the_budget_is_posted_once(watched: Watched, config: Config) -> None:
    watched.spend_daily("10", last=TODAY)
    watched.budget("290")
    watched.check()
    watched.check()
    thresholds = [each["threshold"] for each in watched.notices(BUDGET_REACHED)]
    assert sorted(thresholds) == ["50", "forecast"]
    [mail] = watched.mails()
    subject, body = _text(config, mail)
    assert subject == "Your spend is forecast to exceed your budget for Sep 2026"
    assert (
        "Your account, Sep 2026: $150.00 of $290.00 spent (51.7%); "
        "$300 forecast by the end of the month" in body
    )


def test_a_route_has_a_budget_of_its_own(watched: Watched) -> None:
    watched.budget("10", "search")
    watched.spend(spend_line(RECENTLY, "500"), spend_line(RECENTLY, "6", route="search"))
    watched.check()
    [notice] = watched.notices(BUDGET_REACHED)
    assert (notice["route"], notice["spend_usd"]) == ("search", 6.0)


def test_there_is_one_mail_a_day_with_everything(watched: Watched, config: Config) -> None:
    watched.spend_daily("10")
    watched.spend(spend_line(YESTERDAY, "90"))
    watched.budget("1")
    watched.watch()
    watched.check()  # has no mail left for today
    watched.budget("2", "chat")
    watched.check()
    assert len(watched.mails()) == 1
    watched.check(NEXT_DAY)
    subject, body = _text(config, watched.mails()[1])
    assert subject == "2 budgets to check"
    assert "Route “chat”, " in body
    watched.check(NEXT_DAY + timedelta(hours=1))
    assert len(watched.mails()) == 2


def test_an_account_without_mails_still_has_its_notices(watched: Watched) -> None:
    with watched.engine.begin() as connection:
        connection.execute(update(Account).values(spend_mails=False))
    watched.spend_daily("10")
    watched.spend(spend_line(YESTERDAY, "90"))
    watched.budget("1")
    watched.watch()
    watched.check()
    assert watched.mails() == []
    assert len(watched.notices(UNUSUAL_SPEND)) == len(watched.notices(BUDGET_REACHED)) == 1
