"""Days in the time zone that an account has chosen: exact sums, and never days of two zones."""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from html import unescape
from random import Random
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import Engine, func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

import worker
from detectors.contract import DailySpend, UsageRecord
from detectors.wording.money import write_figure
from service.config import Config
from service.core.blobs import BlobStore
from service.jobs.claiming import Tools
from service.models import Account, CallFile, SpendDay, SpendGroup, SpendRow
from service.models.audits.audit_settings import find_chosen
from service.models.base import utc_now
from service.models.calls import stored_prices
from service.models.calls.account_days import AccountDays, find_days, has_utc_days
from service.models.calls.spend import sum_days
from service.models.calls.stored_prices import give_utc_days, list_outdated_accounts
from service.models.connections.unsent import SOURCE, replace_unsent
from service.models.operations.retention import purge_old
from service.models.watching.budgets import save_budget
from service.models.watching.watches import list_spend_by_day
from service.operations.call_store.repricing import Pricing, reprice_files
from service.operations.price_book import find_version, load_prices
from service.operations.watching.daily_watch import check_budgets, watch_days
from service.operations.watching.weekly_digest import summarize_week
from tests.service.support.applications import make_application
from tests.service.support.browser import Browser
from tests.worker.calls.test_call_store import compact
from tests.worker.support.promises import sampled
from worker import compact_calls

Publish = Callable[..., str]
# Changes at midnight, 30 and 45 minutes, DST of half an hour, and up to 14 hours beyond UTC.
ZONES: Final = (
    *("America/Los_Angeles", "Asia/Kathmandu", "Pacific/Auckland", "Europe/Berlin"),
    *("Australia/Lord_Howe", "America/Havana", "America/St_Johns", "Pacific/Chatham"),
)
USD_PER_MTOK: Final = (Decimal("2.5"), Decimal(10))  # of gpt-4o
ROUTES: Final = ("chat", "search")
PAGES: Final = (
    *("/dashboard", "/dashboard?days=7", "/dashboard?route=chat", "/dashboard?group=model"),
    *("/spend", "/spend?days=1", "/spend?days=7", "/spend?days=90", "/spend?period=month"),
    *("/spend?period=last-month", "/spend?group=model&days=7", "/compare", "/compare?days=7"),
    *("/settings/budgets", "/route?route=chat", "/model?model=gpt-4o"),
)
_MARKED: Final = re.compile(
    r'<span data-figure="(spent)" data-of="([^"]*)" data-period="([^"/]*)/(\S*)([^"]*)">([^<]*)<'
)
_DAY: Final = timedelta(days=1)


class Call(NamedTuple):
    at: datetime
    route: str
    input_tokens: int
    output_tokens: int

    @property
    def usd(self) -> Decimal:
        return (
            self.input_tokens * USD_PER_MTOK[0] + self.output_tokens * USD_PER_MTOK[1]
        ) / 1_000_000

    def record(self, number: int) -> UsageRecord:
        return UsageRecord(
            ts=self.at,
            provider="openai",
            model="gpt-4o",
            tag=self.route,
            prompt_tokens=self.input_tokens,
            completion_tokens=self.output_tokens,
            request_id=f"call-{number}",
        )


def make_calls(random: Random, zone: str, days: Sequence[date], count: int) -> list[Call]:
    """Make calls on some days, most of them around midnight there and in UTC."""
    info, calls = ZoneInfo(zone), []
    for _ in range(count):
        day = random.choice(days)
        midnight = datetime.combine(day, time(), random.choice((UTC, info, info)))
        near = timedelta(seconds=random.choice((2, 120, 5_400, 86_400)))
        at = midnight.astimezone(UTC) + near * random.uniform(-1, 1)
        tokens = random.randrange(1_000, 90_000), random.randrange(100, 9_000)
        calls.append(Call(at, random.choice(ROUTES), *tokens))
    return calls


def sum_apart(calls: Sequence[Call], zone: str) -> dict[date, Decimal]:
    """Sum the calls by the days of a zone, with nothing of ours."""
    sums: dict[date, Decimal] = defaultdict(Decimal)
    for call in calls:
        sums[call.at.astimezone(ZoneInfo(zone)).date()] += call.usd
    return dict(sums)


def choose(engine: Engine, account_id: str, zone: str | None) -> None:
    with engine.begin() as connection:
        own = update(Account).where(Account.id == account_id)
        connection.execute(own.values(time_zone=zone))


def days_of(engine: Engine, account_id: str) -> AccountDays:
    with engine.connect() as connection:
        return find_days(connection, account_id)


def sums_of(engine: Engine, account_id: str, *, is_local: bool) -> dict[date, Decimal]:
    ends = date(2000, 1, 1), date(2100, 1, 1)
    with engine.connect() as connection:
        return dict(sum_days(connection, account_id, ends, is_local=is_local))


def publish_all(publish: Publish, calls: Sequence[Call], batches: int = 3) -> None:
    records = [call.record(number) for number, call in enumerate(calls)]
    for at in range(batches):
        publish(records[at::batches])


@pytest.fixture
def browser(engine: Engine, config: Config, account_id: str) -> Browser:
    sessions = sessionmaker(engine, expire_on_commit=False)
    return Browser(make_application(config, sessions), sessions, "worker@example.com")


def get(browser: Browser, path: str) -> str:
    with browser.client.get(path) as answer:
        assert answer.status_code == 200, path
        return answer.get_data(as_text=True)


@pytest.mark.parametrize("zone", sampled(ZONES, 4))
def test_sums_by_day_of_a_zone_are_those_of_the_calls(
    engine: Engine, account_id: str, publish_records: Publish, zone: str
) -> None:
    """Through changes of the clocks, before and after merging, with either day of each line."""
    days = [date(2025, month, 1) + _DAY * at for month in (3, 4, 9, 10, 11) for at in range(30)]
    calls = make_calls(Random(zone), zone, days, 600)
    choose(engine, account_id, zone)
    publish_all(publish_records, calls)
    for is_merged in (False, True):
        if is_merged:
            compact_calls(account_id)
        assert days_of(engine, account_id) == AccountDays(zone)
        assert sums_of(engine, account_id, is_local=True) == sum_apart(calls, zone)
        assert sums_of(engine, account_id, is_local=False) == sum_apart(calls, "UTC")
        check_summaries(engine)


def check_summaries(engine: Engine) -> None:
    """The triggers keep both days of each sum."""
    keys = ("file_id", "day", "day_shift")
    with Session(engine) as session:
        of_lines = [getattr(SpendRow, name) for name in keys]
        lines = session.execute(
            select(*of_lines, func.sum(SpendRow.cost_usd)).group_by(*of_lines)
        ).all()
        of_days = [getattr(SpendDay, name) for name in (*keys, "cost_usd")]
        assert sorted(map(tuple, session.execute(select(*of_days)))) == sorted(map(tuple, lines))
        of_groups = [getattr(SpendGroup, name) for name in keys]
        groups = select(*of_groups, func.sum(SpendGroup.cost_usd)).where(
            SpendGroup.label == "route"
        )
        rows = session.execute(groups.group_by(*of_groups))
        assert sorted(map(tuple, rows)) == sorted(map(tuple, lines))


@pytest.mark.parametrize("zone", sampled(ZONES[:3], 3))
def test_every_page_and_mail_has_the_sums_of_the_calls(
    engine: Engine, account_id: str, publish_records: Publish, browser: Browser, zone: str
) -> None:
    now = utc_now()
    days = [now.astimezone(ZoneInfo(zone)).date() - _DAY * back for back in range(75)]
    calls = [call for call in make_calls(Random(zone), zone, days, 900) if call.at < now]
    choose(engine, account_id, zone)
    publish_all(publish_records, calls)
    compact_calls(account_id)
    with Session(engine) as session:
        save_budget(session, account_id, None, Decimal(1))
        save_budget(session, account_id, "chat", Decimal(1))
        session.commit()
    sums = {"account": sum_apart(calls, zone)}
    for route in ROUTES:
        sums[f"route:{route}"] = sum_apart([each for each in calls if each.route == route], zone)
    sums["model:gpt-4o"] = sums["account"]
    read = 0
    for path in PAGES:
        page = get(browser, path)
        assert "UTC)</label>" not in page
        assert "{{" not in page
        assert AccountDays(zone).words in page, path
        found = _MARKED.findall(page)
        assert found, path
        for name, of, first, last, whose, words in found:
            if of not in sums:
                continue
            ends = date.fromisoformat(first), date.fromisoformat(last)
            total = sum(
                (usd for day, usd in sums[of].items() if ends[0] <= day <= ends[1]), Decimal(0)
            )
            assert whose == f" ({zone})", path
            assert unescape(words) == write_figure(name, total), (path, of, ends)
            read += 1
    assert read > 30
    text_of = get(browser, "/spend.csv?daily=1&days=90").lstrip("\ufeff")
    rows = list(csv.DictReader(io.StringIO(text_of)))
    by_day: dict[date, Decimal] = defaultdict(Decimal)
    for row in rows:
        by_day[date.fromisoformat(row[f"day ({zone})"])] += Decimal(row["cost_usd"])
    assert by_day == sums["account"]
    check_mails(engine, account_id, sums["account"], AccountDays(zone))


def check_mails(
    engine: Engine, account_id: str, sums: dict[date, Decimal], of: AccountDays
) -> None:
    """The digest, the watch and the budgets have the same days."""
    today = of.today()
    monday = today - _DAY * today.weekday()
    with engine.connect() as connection:
        week = summarize_week(connection, account_id, monday, utc_now(), of)
        assert week is not None
        total = sum(
            (usd for day, usd in sums.items() if monday - 7 * _DAY <= day < monday), Decimal(0)
        )
        assert (Decimal(week["spend_usd"]), week["whose"]) == (total, of.words)
        watched = list_spend_by_day(
            connection, account_id, (min(sums), max(sums)), is_local=of.is_local
        )
        assert {day: text.split()[1] for day, text in watched.items()} == {
            day: f"{usd:.2f}" for day, usd in sums.items()
        }
        month = sum((usd for day, usd in sums.items() if day >= today.replace(day=1)), Decimal(0))
    with engine.connect() as connection:
        watch_days(connection, utc_now())
        check_budgets(connection, utc_now())
    with engine.connect() as connection:
        posted = connection.execute(
            text(
                "SELECT month, spend_usd FROM budget_notices JOIN budgets ON budgets.id = budget_id"
                " WHERE route IS NULL AND account_id = :account"
            ),
            {"account": account_id},
        ).all()
    if month >= Decimal("0.5"):
        assert {row.month for row in posted} == {today.replace(day=1)}
        assert {round(row.spend_usd, 6) for row in posted} == {round(month, 6)}


def test_days_are_utc_until_all_calls_are_counted_by_another_zone(
    engine: Engine, account_id: str, publish_records: Publish, browser: Browser
) -> None:
    """A page never has days of two zones, whatever is imported meanwhile."""
    zone, now = "Pacific/Auckland", utc_now()
    days = [(now - _DAY * back).date() for back in range(1, 20)]
    calls = make_calls(Random(1), zone, days, 200)
    publish_all(publish_records, calls)
    assert "To (UTC)" in get(browser, "/spend")
    choose(engine, account_id, zone)
    with engine.connect() as connection:
        assert list_outdated_accounts(connection, find_version(connection), 9) == [account_id]
    assert days_of(engine, account_id) == AccountDays(zone, False)
    words = "Days are UTC until your calls are counted again by Auckland time."
    for path in ("/spend", "/dashboard", "/compare", "/settings/budgets", "/settings"):
        assert words in get(browser, path), path
    assert "To (UTC)" in get(browser, "/spend")
    # New calls have the zone's days at once.
    more = make_calls(Random(2), zone, days, 50)
    publish_records([call.record(9_000 + number) for number, call in enumerate(more)])
    assert days_of(engine, account_id).is_pending
    assert sums_of(engine, account_id, is_local=False) == sum_apart([*calls, *more], "UTC")
    compact_calls(account_id)
    assert days_of(engine, account_id) == AccountDays(zone)
    assert sums_of(engine, account_id, is_local=True) == sum_apart([*calls, *more], zone)
    page = get(browser, "/spend")
    assert "To (Auckland time)" in page
    assert words not in page
    with engine.connect() as connection:
        assert list_outdated_accounts(connection, find_version(connection), 9) == []
    # Back again, the days of UTC are right before anything is counted.
    choose(engine, account_id, None)
    assert "To (UTC)" in get(browser, "/spend")
    assert sums_of(engine, account_id, is_local=False) == sum_apart([*calls, *more], "UTC")
    compact_calls(account_id)
    with Session(engine) as session:
        assert set(session.scalars(select(SpendRow.day_shift))) == {0}


def test_a_file_that_the_previous_release_writes_makes_days_utc(
    engine: Engine, account_id: str, publish_records: Publish
) -> None:
    """It knows no zone: neither its lines nor the name of its prices have one."""
    zone = "America/Los_Angeles"
    choose(engine, account_id, zone)
    calls = make_calls(Random(3), zone, [date(2025, 11, 1) + _DAY * at for at in range(5)], 60)
    publish_all(publish_records, calls)
    assert not days_of(engine, account_id).is_pending
    with Session(engine) as session:
        file = session.scalars(select(CallFile).where(CallFile.replaced_at.is_(None))).first()
        assert file is not None
        prices = file.priced_with
        assert prices is not None
        assert prices.endswith(f"|{zone}")
        session.execute(update(SpendRow).where(SpendRow.file_id == file.id).values(day_shift=0))
        file.priced_with = prices.removesuffix(f"|{zone}")
        session.commit()
    assert days_of(engine, account_id).is_pending
    check_summaries(engine)
    compact_calls(account_id)
    assert not days_of(engine, account_id).is_pending
    assert sums_of(engine, account_id, is_local=True) == sum_apart(calls, zone)


def test_an_attempt_that_began_before_the_zone_was_changed_makes_days_utc(
    engine: Engine, account_id: str, publish_records: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = "Asia/Kathmandu"
    days = [date(2025, 11, 1) + _DAY * at for at in range(5)]
    calls = make_calls(Random(4), zone, days, 60)
    choose(engine, account_id, zone)
    publish_all(publish_records, calls[:40])
    with monkeypatch.context() as patched:
        patched.setattr("worker.find_terms", _find_old_terms)
        publish_records([call.record(9_000 + at) for at, call in enumerate(calls[40:])])
    assert days_of(engine, account_id).is_pending
    compact_calls(account_id)
    assert not days_of(engine, account_id).is_pending
    assert sums_of(engine, account_id, is_local=True) == sum_apart(calls, zone)


def _find_old_terms(connection: Any, audit_ids: Sequence[str]) -> Any:
    return {}, load_prices(connection)


def test_purged_calls_keep_the_days_of_their_zone_and_else_have_utc_days(
    engine: Engine, account_id: str, publish_records: Publish, browser: Browser
) -> None:
    zone, others = "Pacific/Auckland", "America/Los_Angeles"
    now = utc_now()
    days = [(now - _DAY * back).date() for back in range(45, 55)]
    calls = make_calls(Random(5), zone, days, 80)
    choose(engine, account_id, zone)
    publish_all(publish_records, calls)
    compact(engine, account_id)
    with engine.begin() as connection:
        connection.execute(update(CallFile).values(created_at=now - timedelta(days=60)))
        assert purge_old(connection, 30, 100) > 0
    assert not days_of(engine, account_id).is_pending
    assert sums_of(engine, account_id, is_local=True) == sum_apart(calls, zone)
    ends = days[-1], days[0]
    with engine.connect() as connection:
        assert not has_utc_days(connection, account_id, zone, ends)
    choose(engine, account_id, others)
    assert days_of(engine, account_id).is_pending
    with engine.connect() as connection:
        assert list_outdated_accounts(connection, find_version(connection), 9) == [account_id]
    assert has_hint(browser)
    compact_calls(account_id)
    assert not has_hint(browser)
    # Without other calls, no day is one of the zone.
    assert days_of(engine, account_id) == AccountDays(others, False, False)
    words = "Days are UTC, because no stored calls have days of Los Angeles time."
    assert words in get(browser, "/spend?days=90")
    new = Call(now - timedelta(hours=1), "chat", 1_000, 100)
    publish_records([new.record(9_000)])
    assert days_of(engine, account_id) == AccountDays(others)
    by_day = sum_apart(calls, "UTC") | sum_apart([new], others)
    assert sums_of(engine, account_id, is_local=True) == by_day
    with engine.connect() as connection:
        assert has_utc_days(connection, account_id, others, ends)
        assert not has_utc_days(connection, account_id, others, (days[0] + 9 * _DAY, now.date()))
        assert list_outdated_accounts(connection, find_version(connection), 9) == []
    note = "Spend without stored calls is by UTC day."
    assert note in get(browser, "/spend?days=90")
    assert note not in get(browser, "/spend?days=7")
    check_downloads(browser, others)
    check_summaries(engine)


def check_downloads(browser: Browser, zone: str) -> None:
    """The name and the head of a table say which days aren't those of the zone."""
    name = f"tallystick-spend-{zone.lower().replace('/', '-').replace('_', '-')}"
    rest = "-utc-without-stored-calls"
    for days, of, more in ((90, f"{zone}; UTC without stored calls", rest), (7, zone, "")):
        for ending in ("csv", "xlsx"):
            with browser.client.get(f"/spend.{ending}?daily=1&days={days}") as answer:
                assert answer.headers["Content-Disposition"].endswith(f"={name}{more}.{ending}")
                if ending == "csv":
                    assert answer.get_data(as_text=True).startswith(f"\ufeffday ({of}),route,")


def has_hint(browser: Browser) -> bool:
    return "If you change the time zone, spend without stored calls" in get(browser, "/settings")


def test_spend_that_only_providers_report_is_by_utc_day(
    engine: Engine, account_id: str, publish_records: Publish, browser: Browser
) -> None:
    zone, now = "America/Los_Angeles", utc_now()
    choose(engine, account_id, zone)
    assert days_of(engine, account_id) == AccountDays(zone)  # of an account without any spend
    line = DailySpend(
        day=now.date(), route="not sent", provider="openai", model="gpt-4o", calls=3,
        environment=SOURCE, unpriced_calls=0, prompt_tokens=1, completion_tokens=1,
        cached_tokens=0, cache_write_tokens=0, cost_usd=Decimal(4), list_usd=Decimal(4),
    )  # fmt: skip
    with engine.begin() as connection:
        replace_unsent(connection, account_id, "openai", [line])
    of = days_of(engine, account_id)
    assert (of.is_local, of.is_pending, of.has_calls) == (False, True, False)
    assert "To (UTC)" in get(browser, "/spend")
    assert get(browser, "/spend.csv?daily=1").startswith("\ufeffday,route,")
    # The dashboard that waits for the first calls shows what it waited for.
    assert browser.client.get("/dashboard/first").get_json() == {"is_ready": True}
    assert of.pending_words in get(browser, "/dashboard")
    new = Call(now - timedelta(hours=1), "chat", 1_000, 100)
    publish_records([new.record(1)])
    assert days_of(engine, account_id) == AccountDays(zone)
    assert "Spend without stored calls is by UTC day." in get(browser, "/spend?days=7")
    monday = (now - _DAY * now.weekday()).date() + 7 * _DAY
    with engine.connect() as connection:
        week = summarize_week(connection, account_id, monday, now, AccountDays(zone))
    assert week is not None
    assert week["has_utc_days"]


def test_the_dashboard_waits_for_calls_by_the_days_that_it_shows(
    engine: Engine,
    account_id: str,
    publish_records: Publish,
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would be loaded again and again: this call is dated tomorrow in Berlin."""
    choose(engine, account_id, "Europe/Berlin")
    publish_records([Call(datetime(2026, 11, 10, 23, 30, tzinfo=UTC), "chat", 9, 9).record(1)])
    for hour, is_ready in ((12, False), (23, True)):
        now = datetime(2026, 11, 10, hour, tzinfo=UTC)
        monkeypatch.setattr("service.models.calls.account_days.utc_now", lambda now=now: now)
        assert browser.client.get("/dashboard/first").get_json() == {"is_ready": is_ready}
        assert ("data-waiting" in get(browser, "/dashboard")) != is_ready


@pytest.mark.parametrize("is_known", sampled([False, True], 2))
def test_a_worker_that_lacks_the_zone_drops_no_days(
    engine: Engine,
    account_id: str,
    publish_records: Publish,
    monkeypatch: pytest.MonkeyPatch,
    is_known: bool,
) -> None:
    """Neither does one that has read the zone before it was changed, back and forth."""
    zone = "Pacific/Auckland"
    calls = publish_purged(engine, account_id, publish_records, zone)
    with monkeypatch.context() as patched:
        if is_known:  # as an attempt that began before
            patched.setattr("worker.find_account_terms", _find_old_account_terms)
        else:
            patched.setattr("detectors.report.account.imports.is_zone", lambda _name: False)
        compact_calls(account_id)
    assert days_of(engine, account_id) == AccountDays(zone)
    assert sums_of(engine, account_id, is_local=True) == sum_apart(calls, zone)


def publish_purged(
    engine: Engine, account_id: str, publish_records: Publish, zone: str
) -> list[Call]:
    """Publish calls by the days of a zone, and purge them."""
    choose(engine, account_id, zone)
    days = [date(2025, 11, 1) + _DAY * at for at in range(5)]
    calls = make_calls(Random(6), zone, days, 60)
    publish_all(publish_records, calls)
    compact(engine, account_id)
    with engine.begin() as connection:
        connection.execute(update(CallFile).values(created_at=utc_now() - timedelta(days=60)))
        assert purge_old(connection, 30, 100) > 0
    return calls


def _find_old_account_terms(connection: Any, account_id: str) -> Any:
    return replace(find_chosen(connection, account_id), time_zone=""), load_prices(connection)


def test_an_account_whose_zone_no_machine_knows_is_not_listed_for_ever(
    engine: Engine, account_id: str, publish_records: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_purged(engine, account_id, publish_records, "Pacific/Auckland")
    publish_records([Call(utc_now(), "chat", 1_000, 100).record(9_000)])
    choose(engine, account_id, "Atlantis/City")
    compact_calls(account_id)
    assert days_of(engine, account_id).is_pending
    assert outdated(engine) == []
    with engine.begin() as connection:  # other prices are followed as ever
        live = update(CallFile).where(CallFile.replaced_at.is_(None))
        connection.execute(live.values(priced_with="1|2"))
    assert outdated(engine) == [account_id]
    compact_calls(account_id)
    assert outdated(engine) == []


def outdated(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(list_outdated_accounts(connection, find_version(connection), 9))


def test_a_lost_file_has_utc_days_and_does_not_hold_the_others(
    engine: Engine,
    account_id: str,
    publish_records: Publish,
    browser: Browser,
    blobs: BlobStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    zone = "Pacific/Auckland"
    day = utc_now().date()
    old = make_calls(Random(7), zone, [day - _DAY * back for back in range(20, 25)], 60)
    new = make_calls(Random(8), zone, [day - _DAY * back for back in range(2, 5)], 60)
    lost = publish_records([call.record(at) for at, call in enumerate(old)])
    publish_records([call.record(9_000 + at) for at, call in enumerate(new)])
    with Session(engine) as session:
        file = session.scalars(select(CallFile).where(CallFile.import_id.startswith(lost))).one()
    with blobs.open(file.blob_key) as stored:
        content = stored.read()
    blobs.delete(file.blob_key)
    choose(engine, account_id, zone)
    reprice(engine, account_id)
    assert caplog.text.count("calls_lost") == 1
    assert outdated(engine) == []
    assert days_of(engine, account_id) == AccountDays(zone)
    assert sums_of(engine, account_id, is_local=True) == sum_apart(old, "UTC") | sum_apart(
        new, zone
    )
    note = "Spend without stored calls is by UTC day."
    assert note in get(browser, "/spend?days=30")
    assert note not in get(browser, "/spend?days=7")
    # Other zones make it UTC no less, and it is tried again with other files.
    choose(engine, account_id, "America/Havana")
    assert outdated(engine) == [account_id]
    blobs.put(file.blob_key, content)
    reprice(engine, account_id)
    assert sums_of(engine, account_id, is_local=True) == sum_apart([*old, *new], "America/Havana")
    assert note not in get(browser, "/spend?days=30")


def reprice(engine: Engine, account_id: str) -> None:
    """Reprice without merging, which needs all files."""
    with Tools.opened() as tools:
        library, terms, _ = worker._open_account(tools, account_id)
        pricing = Pricing(terms, partial(library.sum_stored, terms=terms))
        reprice_files(tools, account_id, pricing)


def test_days_are_dropped_in_parts_after_live_files_and_go_on_where_they_stopped(
    engine: Engine, account_id: str, publish_records: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone, other = "Pacific/Auckland", "America/Los_Angeles"
    calls = publish_purged(engine, account_id, publish_records, zone)
    new = make_calls(Random(9), other, [date(2026, 11, 3)], 20)
    publish_records([call.record(9_000 + at) for at, call in enumerate(new)])
    monkeypatch.setattr(stored_prices, "_LINES_AT_ONCE", 2)
    choose(engine, account_id, other)
    stops: list[str] = []

    def stop(connection: Any, file_id: str) -> bool:
        stops.append(file_id)
        if len(stops) == 3:
            raise InterruptedError
        return give_utc_days(connection, file_id)

    with monkeypatch.context() as patched:
        patched.setattr("service.operations.call_store.repricing.give_utc_days", stop)
        with pytest.raises(InterruptedError):
            reprice(engine, account_id)
    # The live calls are counted, and the days of both zones aren't shown yet.
    assert days_of(engine, account_id).is_pending
    with Session(engine) as session:
        live = session.scalars(select(CallFile).where(CallFile.replaced_at.is_(None))).one()
        shifted = select(func.count()).where(SpendRow.day_shift != 0, SpendRow.file_id != live.id)
        assert str(live.priced_with).endswith(f"|{other}")
        left = session.scalar(shifted)
        assert left
        # Back again, the zone that some of the lines had isn't that of the file.
        choose(engine, account_id, zone)
        assert days_of(engine, account_id).is_pending
        reprice(engine, account_id)
        session.expire_all()
        assert (session.scalar(shifted) or 0) < left
    assert days_of(engine, account_id) == AccountDays(zone)
    with engine.connect() as connection:
        ends = date(2025, 11, 1), date(2025, 11, 5)
        assert has_utc_days(connection, account_id, zone, ends)
    assert outdated(engine) == []
    assert sums_of(engine, account_id, is_local=False) == sum_apart([*calls, *new], "UTC")


def test_settings_have_the_zone_of_an_account_without_prices(
    engine: Engine, account_id: str
) -> None:
    choose(engine, account_id, "Europe/Berlin")
    with engine.connect() as connection:
        chosen = find_chosen(connection, account_id)
    assert (chosen.time_zone, chosen.price_terms, chosen.assumptions) == ("Europe/Berlin", "", {})
