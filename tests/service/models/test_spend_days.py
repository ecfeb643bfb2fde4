"""The dollars of a file by day, and by label, are those of its lines, whatever happens to them."""

from datetime import timedelta
from decimal import Decimal

import pytest
from msgspec.structs import astuple
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.orm import Session

from detectors.contract import DailySpend
from service.models import Account, CallFile, SpendDay, SpendGroup, SpendRow
from service.models.calls import daily_spend
from tests.service.support.browser import Browser
from tests.service.support.spend import FIRST, add_spend, spend_line

LABELS = ("route", "model", "provider", "environment")
NEXT = FIRST + timedelta(days=1)


def _check(session: Session) -> int:
    """All three tables have the same sums; return the number of days."""
    sums = ("calls", "cost_usd")
    for label in (*LABELS, None):
        table = SpendGroup if label else SpendDay
        keys = [getattr(SpendRow, name) for name in ("file_id", "day", "account_id")]
        keys += [getattr(SpendRow, label)] if label else []
        of_lines = select(*keys, *(func.sum(getattr(SpendRow, name)) for name in sums))
        lines = session.execute(of_lines.group_by(*keys)).all()
        names = ("file_id", "day", "account_id", *(("value",) if label else ()), *sums)
        kept = select(*(getattr(table, name) for name in names))
        found = session.execute(kept.where(SpendGroup.label == label) if label else kept).all()
        assert sorted(map(tuple, lines)) == sorted(map(tuple, found)), label
    return len(found)


def test_lines_that_are_added_changed_and_deleted_change_the_days(
    ada: Browser, db_session: Session
) -> None:
    add_spend(
        db_session,
        ada.account_id,
        *(spend_line(FIRST, "2"), spend_line(FIRST, "3", route="search"), spend_line(NEXT, "0")),
    )
    add_spend(db_session, ada.account_id, spend_line(FIRST, "7"))
    assert _check(db_session) == 3
    changed = update(SpendRow).where(SpendRow.route == "search")
    db_session.execute(changed.values(cost_usd=Decimal("2.5"), calls=4))
    assert _check(db_session) == 3
    db_session.execute(changed.values(day=NEXT))
    assert _check(db_session) == 3
    db_session.execute(delete(SpendRow).where(SpendRow.day == NEXT, SpendRow.route == "chat"))
    assert _check(db_session) == 3
    db_session.execute(delete(SpendRow).where(SpendRow.day == NEXT))
    assert _check(db_session) == 2


def test_the_sums_of_a_dropped_file_are_deleted_without_an_update(
    ada: Browser, db_session: Session
) -> None:
    """An update to zero before would leave a second dead row in each index."""
    for cost in ("2", "3"):
        add_spend(db_session, ada.account_id, spend_line(FIRST, cost), spend_line(NEXT, cost))
    dropped, kept = db_session.scalars(select(CallFile.id)).all()
    counts = text(
        "SELECT sum(n_tup_upd), sum(n_tup_del) FROM pg_stat_xact_user_tables"
        " WHERE relname IN ('spend_days', 'spend_groups')"
    )
    # The connection may still have counts of transactions before.
    before = db_session.execute(counts).one()
    daily_spend.drop_spend(db_session.connection(), [dropped])
    left = {row.file_id for row in db_session.scalars(select(SpendGroup))}
    assert left == {kept}
    assert _check(db_session) == 2
    updated, deleted = db_session.execute(counts).one()
    assert (updated - before[0], deleted - before[1]) == (0, 2 + 2 * len(LABELS))


def test_the_days_go_with_their_file_and_with_their_account(
    ada: Browser, db_session: Session
) -> None:
    for cost in ("2", "3"):
        add_spend(db_session, ada.account_id, spend_line(FIRST, cost), spend_line(NEXT, cost))
    file_id = db_session.scalars(select(CallFile.id).limit(1)).one()
    db_session.execute(delete(CallFile).where(CallFile.id == file_id))
    assert _check(db_session) == 2
    db_session.execute(delete(Account).where(Account.id == ada.account_id))
    assert _check(db_session) == 0


def test_lines_of_several_files_are_added_as_they_are_with_few_statements(
    ada: Browser, db_session: Session, statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        add_spend(db_session, ada.account_id, spend_line(FIRST, route="first"))
    file_ids = db_session.scalars(select(CallFile.id).order_by(CallFile.id)).all()
    odd = ("", "'; --", '"q" \\ \t\n', "%(files)s :files", "é 漢 😀", "null", "[{}]", "\u2028")
    large = spend_line(NEXT, "98765432101234567.123456789", calls=2**57 + 1)
    lines = [DailySpend(**{**large, "route": label}) for label in odd]
    monkeypatch.setattr(daily_spend, "_LINES_AT_ONCE", 6)
    statements.clear()
    spend = [(file_ids[0], ada.account_id, lines), (file_ids[1], ada.account_id, lines[:4])]
    daily_spend.add_spend(db_session.connection(), [*spend, (file_ids[2], ada.account_id, [])])
    assert len(statements) == 2  # 6 lines; then 2 of the same file and 4 of the next
    columns = [getattr(SpendRow, name) for name in ("file_id", *DailySpend.__struct_fields__)]
    added = db_session.execute(select(*columns).where(SpendRow.day == NEXT).order_by(SpendRow.id))
    expected = [(file_id, *astuple(line)) for file_id, _, some in spend for line in some]
    assert list(map(tuple, added)) == expected
    assert _check(db_session) == 5
