"""What pages say of calls that a plan includes: a value, and nothing that sounds like money."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from service.models import CallFile, PlanRow
from service.models.base import utc_now
from service.models.calls.plan_usage import sum_plan_usage
from tests.service.support.browser import Browser, words_of
from tests.service.support.spend import add_plan_usage, spend_line


def main(page: str) -> str:
    """Return the words of a page without those of its frame."""
    return words_of(page.partition("<main")[2])


@pytest.mark.parametrize("path", ["/dashboard", "/spend"])
def test_an_account_of_a_plan_alone_sees_its_value_and_no_spend(
    path: str, ada: Browser, db_session: Session
) -> None:
    today = utc_now().date()
    lines = [spend_line(today, "12.25", model=model) for model in ("claude-a", "claude-b")]
    add_plan_usage(db_session, ada.account_id, *lines)
    page = main(ada.get(path))
    assert "No spend in this period" in page
    section = page.partition("Plan usage")[2].partition("Findings")[0]
    assert "20 calls are included in a plan. The API price of their tokens is $24.50" in section
    assert not re.search(r"spend|spent|sav(e|ing)|waste", section.partition(".")[0], re.IGNORECASE)
    assert ("claude-a" in section) is (path == "/spend")
    assert "$24.50" not in page.partition("Plan usage")[0]
    other = main(ada.get(f"{path}?route=other"))
    assert "$24.50" not in other


@pytest.mark.parametrize("kind", ["route", "model"])
def test_a_route_or_model_of_a_plan_alone_has_a_page_with_its_value(
    kind: str, ada: Browser, db_session: Session
) -> None:
    today = utc_now().date()
    earlier = today - timedelta(days=60)
    lines = [spend_line(today, "12.25", route="r", model="m")]
    lines += [spend_line(earlier, "9", route="old", model="old")]
    add_plan_usage(db_session, ada.account_id, *lines)
    page = main(ada.get(f"/{kind}?{kind}={kind[0]}"))
    assert "No spend in this period" in page
    assert f"A plan includes all calls of this {kind} in this period." in page
    section = page.partition("Plan usage")[2].partition("Findings")[0]
    assert "10 calls are included in a plan. The API price of their tokens is $12.25" in section
    assert "$12.25" not in page.partition("Plan usage")[0]
    other = main(ada.get(f"/{kind}?{kind}=old"))
    assert "Plan usage" not in other
    assert f"The latest calls of this {kind} are from" in other


def test_lines_of_a_merged_file_that_the_previous_release_left_are_not_counted(
    ada: Browser, db_session: Session
) -> None:
    today = utc_now().date()
    for cost in ("1", "2"):
        add_plan_usage(db_session, ada.account_id, spend_line(today, cost))
    days = today - timedelta(days=1), today
    assert sum_plan_usage(db_session, ada.account_id, days).value_usd == 3
    merged = db_session.scalars(select(PlanRow.file_id).where(PlanRow.value_usd == 1)).one()
    file = update(CallFile).where(CallFile.id == merged)
    db_session.execute(file.values(replaced_at=utc_now()))
    assert sum_plan_usage(db_session, ada.account_id, days).value_usd == 2
    db_session.execute(file.values(purged_at=utc_now()))  # its calls were deleted after a while
    assert sum_plan_usage(db_session, ada.account_id, days).value_usd == 3
