"""Large tables are written by another process: the same bytes, while other requests run."""

import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from subprocess import TimeoutExpired
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask, Response, copy_current_request_context

from service.app import create_app
from service.config import Config
from service.errors import InvalidRequestError, RateLimitedError, UnavailableError
from service.models.base import Lock, try_lock
from service.models.calls.finding_list import FindingFilter
from service.models.calls.spend import Selection
from service.reports import csv_table, workbook
from service.web.http import tables
from service.web.http.finding_tables import FindingTable
from service.web.http.spend_tables import SpendTable
from tests.service.support.scenes import Sessions, add_tenant
from tests.service.support.spend import FIRST, add_spend, spend_line
from tests.worker.support.promises import sampled

if TYPE_CHECKING:
    pass

DAYS = 3


@pytest.fixture
def wanted() -> Selection:
    last = FIRST + timedelta(days=DAYS - 1)
    return Selection(first=FIRST, last=last, keys=("day", "route"), only={"model": "gpt-5.5"})


@pytest.fixture
def account_id(own_sessions: Sessions) -> str:
    account_id = add_tenant(own_sessions).account_id
    lines = [
        spend_line(FIRST + timedelta(days=day), "0.123456789", route=f"=route {route} \u00e9")
        for day in range(DAYS)
        for route in range(20)
    ]
    with own_sessions() as session:
        add_spend(session, account_id, *lines)
    return account_id


@pytest.fixture
def app(own_database: Config) -> Iterator[Flask]:
    app = create_app(own_database)
    with app.test_request_context():
        yield app


def content(response: Response) -> bytes:
    response.direct_passthrough = False
    body = response.get_data()
    response.close()
    if response.mimetype == "text/csv":
        return body
    with zipfile.ZipFile(BytesIO(body)) as archive:  # with the time at which it was written
        return archive.read("xl/worksheets/sheet1.xml")


# Each starts a process. By default, a workbook: the process gets all of them in the same way.
KINDS: dict[str, dict[str, Any]] = {
    "workbook": {"ending": "xlsx"},
    "CSV": {"mark": csv_table.BYTE_ORDER_MARK},
    "findings": {},
    "FOCUS": {"is_focus": True},
}


@pytest.mark.parametrize("kind", sampled(KINDS, 4))
@pytest.mark.usefixtures("app")
def test_another_process_writes_the_same_table(
    account_id: str, wanted: Selection, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table: tables.Table = SpendTable(account_id=account_id, wanted=wanted, **KINDS[kind])
    if kind == "findings":
        chosen = FindingFilter(only={"model": "gpt-5.5"})
        table = FindingTable(account_id=account_id, wanted=chosen)
    small = tables.send_table(table)
    monkeypatch.setattr(tables, "LARGE_LINES", -1)
    monkeypatch.setattr(tables, "write_table", None)  # this process writes none
    large = tables.send_table(table)
    if kind != "workbook":  # has the time at which it was written
        assert list(small.headers) == list(large.headers)
    body = content(small)
    assert body == content(large)
    assert kind != "CSV" or body.count(b"\n") == DAYS * 20 + 1


@pytest.mark.usefixtures("app")
def test_a_focus_table_is_as_large_as_all_of_its_lines(
    account_id: str, wanted: Selection, own_sessions: Sessions
) -> None:
    searched = replace(wanted, search="no route has this name")
    with own_sessions() as session:
        sizes = [
            SpendTable(account_id=account_id, wanted=searched, is_focus=is_focus).has_more_lines(
                session, 20
            )
            for is_focus in (True, False)
        ]
    assert sizes == [True, False]


@pytest.mark.usefixtures("app")
def test_a_table_is_large_by_its_stored_lines(
    account_id: str, wanted: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = list[tables.Table]()

    def write(table: tables.Table) -> BytesIO:
        written.append(table)
        return BytesIO()

    monkeypatch.setattr(tables, "_write_elsewhere", write)
    monkeypatch.setattr(tables, "LARGE_LINES", DAYS * 20 - 1)
    tables.send_table(SpendTable(account_id=account_id, wanted=wanted)).close()
    monkeypatch.setattr(tables, "LARGE_LINES", DAYS * 20)
    tables.send_table(SpendTable(account_id=account_id, wanted=wanted)).close()
    assert len(written) == 1


@pytest.mark.usefixtures("app")
def test_what_another_process_rejects_or_cannot_write_is_an_error(
    account_id: str, wanted: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = SpendTable(account_id=account_id, wanted=wanted)
    monkeypatch.setattr(tables, "LARGE_LINES", -1)

    def end_with(code: int, text: bytes = b"") -> None:
        def run(_command: object, _job: bytes, output: BytesIO) -> int:
            output.write(text)
            return code

        monkeypatch.setattr(tables, "_run", run)

    end_with(tables.REJECTED, workbook.FULL.encode())
    with pytest.raises(InvalidRequestError, match="room for"):
        tables.send_table(table)
    end_with(-9)
    with pytest.raises(UnavailableError):
        tables.send_table(table)

    def run_too_long(command: list[str], _job: bytes, _output: BytesIO) -> int:
        raise TimeoutExpired(command, 1)

    monkeypatch.setattr(tables, "_run", run_too_long)
    with pytest.raises(UnavailableError):
        tables.send_table(table)
    monkeypatch.setattr(tables, "_WAIT_SECONDS", 0)
    with tables._TURNS, tables._TURNS, pytest.raises(UnavailableError):
        tables.send_table(table)
    assert not tables._accounts


@pytest.fixture
def other_id(own_sessions: Sessions) -> str:
    return add_tenant(own_sessions).account_id


@pytest.mark.usefixtures("app")
def test_an_account_that_exports_again_and_again_takes_no_turn_of_others(
    account_id: str, other_id: str, wanted: Selection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first export takes as long as the test; others are refused at once."""
    monkeypatch.setattr(tables, "LARGE_LINES", -1)
    has_begun, may_end = Event(), Event()

    def run(*_: Any) -> int:
        return 0

    def hold(*_: Any) -> int:
        has_begun.set()
        return 0 if may_end.wait(60) else tables.REJECTED

    monkeypatch.setattr(tables, "_run", hold)
    send = copy_current_request_context(tables.send_table)
    own = SpendTable(account_id=account_id, wanted=wanted)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(send, own)
        assert has_begun.wait(60)
        monkeypatch.setattr(tables, "_run", run)
        began = time.monotonic()
        for _ in range(20):
            with pytest.raises(RateLimitedError) as refused:
                tables.send_table(own)
        assert time.monotonic() - began < tables._WAIT_SECONDS
        assert int(refused.value.headers["Retry-After"]) > 0
        tables.send_table(SpendTable(account_id=other_id, wanted=wanted)).close()
        may_end.set()
        first.result().close()
    tables.send_table(own).close()


@pytest.mark.usefixtures("app")
def test_an_account_has_one_large_export_of_all_web_processes(
    account_id: str, wanted: Selection, own_sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = SpendTable(account_id=account_id, wanted=wanted)
    monkeypatch.setattr(tables, "LARGE_LINES", -1)
    with own_sessions() as elsewhere:
        assert try_lock(elsewhere, Lock.LARGE_EXPORTS, account_id)
        with monkeypatch.context() as before:
            before.setattr(tables, "_run", None)  # no process is started
            with pytest.raises(RateLimitedError):
                tables.send_table(table)
        with pytest.raises(RateLimitedError):  # if both ask before either has begun
            tables._write_elsewhere(table)
