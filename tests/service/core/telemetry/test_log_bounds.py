"""A flood of lines of one kind is bounded and counted, and hides no other line."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from service.core.logs import get_logger
from service.core.telemetry import log_bounds
from service.core.telemetry.log_bounds import RepeatedLines, Share
from tests.cases import each_case
from tests.service.support.scenes import INGEST

LOG = get_logger(__name__)
MOST = 20


class Clock:
    now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(log_bounds, "time", clock)
    return clock


@pytest.fixture
def bounded(log: io.StringIO, clock: Clock) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The lines of a process that writes `MOST` of a kind per minute."""
    handler = next(one for one in logging.getLogger().handlers if one.get_name() == "tallystick")
    usual, mine = list(handler.filters), RepeatedLines(MOST)
    for each in usual:
        handler.removeFilter(each)
    handler.addFilter(mine)
    yield lambda: [json.loads(line) for line in log.getvalue().splitlines()]
    handler.removeFilter(mine)
    for each in usual:
        handler.addFilter(each)


def test_a_flood_of_refused_requests_is_bounded_and_counted(
    app: Flask, bounded: Callable[[], list[dict[str, Any]]], clock: Clock
) -> None:
    client = app.test_client()
    for _ in range(5 * MOST):
        assert client.post(INGEST).status_code == 401
    client.get("/docs")
    assert [line["event"] for line in bounded()].count("request") == MOST + 1
    clock.now += 61
    assert client.get("/docs").status_code == 200
    summaries = [line for line in bounded() if line["event"] == log_bounds.SUPPRESSED]
    assert {"like": "request", "route": INGEST, "status": 401, "lines": 4 * MOST}.items() <= (
        summaries[0].items()
    )
    assert bounded()[-1]["status"] == 200


def test_kinds_are_apart_and_each_minute_starts_over(
    bounded: Callable[[], list[dict[str, Any]]], clock: Clock
) -> None:
    for number in range(3 * MOST):
        LOG.info("request_unreadable", error_type="ParseException", request_id=str(number))
    LOG.info("request_unreadable", error_type="LimitRequestLine")
    logging.getLogger("gunicorn.error").warning("Ignoring %s", "a")
    assert len(bounded()) == MOST + 2
    clock.now += 61
    for _ in range(MOST):
        LOG.info("request_unreadable", error_type="ParseException")
    lines = bounded()
    assert len(lines) == 2 * MOST + 3
    assert [line["lines"] for line in lines if line["event"] == log_bounds.SUPPRESSED] == [2 * MOST]


def test_kinds_are_bounded_too(bounded: Callable[[], list[dict[str, Any]]], clock: Clock) -> None:
    for number in range(1_000 + 5 * MOST):
        logging.getLogger("elsewhere").warning(f"a text with the number {number}")
    assert len(bounded()) == 1_000 + MOST


def test_a_summary_names_the_logger_of_a_library(
    bounded: Callable[[], list[dict[str, Any]]], clock: Clock
) -> None:
    for _ in range(MOST + 3):
        logging.getLogger("gunicorn.error").warning("Ignoring %s", "a")
    clock.now += 61
    LOG.info("next")
    expected = {"like": "Ignoring %s", "like_logger": "gunicorn.error", "lines": 3}
    assert expected.items() <= bounded()[-2].items()


def test_successful_requests_are_never_suppressed(
    app: Flask, bounded: Callable[[], list[dict[str, Any]]]
) -> None:
    client = app.test_client()
    for _ in range(MOST + 5):
        assert client.get("/healthz").status_code == 200
    assert len(bounded()) == MOST + 5


def test_a_share_of_the_requests_is_logged_and_every_failure(
    share_app: Callable[..., Flask], request: pytest.FixtureRequest
) -> None:
    client = share_app(log_requests_share=0.25).test_client()
    log: io.StringIO = request.getfixturevalue("log")  # of this application, not an earlier one
    for _ in range(8):
        client.get("/healthz")
        client.get("/nowhere")
    statuses = [json.loads(line)["status"] for line in log.getvalue().splitlines()]
    assert (statuses.count(200), statuses.count(404)) == (2, 8)


@each_case(("share", "chosen"), [(0.0, 0), (0.1, 10), (0.5, 50), (1.0, 100)])
def test_a_share_is_even(share: float, chosen: int) -> None:
    each = Share(share)
    assert abs(sum(each.take() for _ in range(100)) - chosen) <= 1
