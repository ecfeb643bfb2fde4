"""Changes of several findings at once can be undone for a minute."""

import re
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from sqlalchemy.orm import Session

from service.models import AccountFinding
from service.models.base import utc_now
from tests.service.support.browser import Browser
from tests.service.support.findings import add_account_finding

LATER = datetime(2030, 1, 1, tzinfo=UTC)


def _dismissed(ada: Browser, session: Session) -> AccountFinding:
    return add_account_finding(session, ada.account_id, state="dismissed", silent_until=LATER)


def _state(session: Session, finding: AccountFinding) -> tuple[str, datetime | None, str]:
    session.expire_all()
    return finding.state, finding.silent_until, finding.assignee


def _change(ada: Browser, finding: AccountFinding, **fields: str) -> str:
    answer = ada.act("/findings?state=all", "/findings", finding=finding.id, **fields)
    [batch] = re.findall("undo=([0-9a-f]+)", answer.headers["Location"])
    return str(batch)


@pytest.mark.parametrize(
    "fields", [{"action": "reopen"}, {"action": "fix"}, {"do": "assign", "new_assignee": "eve"}]
)
def test_a_change_is_undone_with_all_that_it_changed(
    ada: Browser, db_session: Session, fields: dict[str, str]
) -> None:
    finding = _dismissed(ada, db_session)
    before = _state(db_session, finding)
    batch = _change(ada, finding, **fields)
    assert _state(db_session, finding) != before
    assert f'name="undo" value="{batch}"' in ada.get(f"/findings?state=all&changed=1&undo={batch}")
    answer = ada.act("/findings?state=all", "/findings/undo", undo=batch, state="all")
    assert answer.headers["Location"] == "/findings?state=all&undone=1"
    assert _state(db_session, finding) == before
    assert "We undid 1 change." in ada.get("/findings?state=all&undone=1")


def test_after_a_minute_or_another_change_it_stays(
    ada: Browser, eve: Browser, db_session: Session
) -> None:
    finding = _dismissed(ada, db_session)
    batch = _change(ada, finding, action="reopen")
    with time_machine.travel(utc_now() + timedelta(seconds=61), tick=True):
        ada.act("/findings", "/findings/undo", undo=batch)
    assert _state(db_session, finding)[0] == "open"
    batch = _change(ada, finding, action="fix")
    _change(ada, finding, action="acknowledge")
    for browser in (ada, eve):
        answer = browser.act("/findings", "/findings/undo", undo=batch)
        assert answer.headers["Location"] == "/findings?undone=0"
    assert _state(db_session, finding)[0] == "acknowledged"
