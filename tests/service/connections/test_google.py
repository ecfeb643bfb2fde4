"""Google Cloud: a key signs and is never sent, a billing export is found and read whole."""

import json
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from service.connections import list_providers
from service.connections.client import (
    MissingRightError,
    ProviderDownError,
    RevokedKeyError,
    ThrottledError,
    UnreadableResponseError,
    WrongKeyError,
    fetch_window,
    open_client,
)
from service.connections.google.stub import make_key
from service.connections.provider import CostLine, Name, Window
from service.connections.stub import Answer, running
from tests.cases import each_case
from tests.service.connections.schemas import check, read_body
from tests.service.connections.worlds import make_provider

KNOWN = list_providers()["google"]
_TYPES = {
    "/queries$": "QueryResponse",
    r"/queries/\w+$": "GetQueryResultsResponse",
    "/datasets$": "DatasetList",
    "/tables$": "TableList",
    r"/tables/\w+$": "Table",
}
[REPORT] = KNOWN.reports
DAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _fetch(provider: Any, first: datetime = DAY - timedelta(9), last: Any = None) -> list[Any]:
    with open_client(KNOWN, provider.key, provider.stub.url) as client:
        return list(fetch_window(client, KNOWN, Window(REPORT, first, last)).lines)


def _refuse(status: int, reason: str) -> Any:
    return lambda path, _query: (
        None if path == "/token" else Answer({"error": {"errors": [{"reason": reason}]}}, status)
    )


def test_a_key_signs_and_is_never_sent() -> None:
    provider = make_provider("google", days=3, rows=2)
    with running(provider.stub):
        assert _fetch(provider)
    secret = json.loads(make_key())["private_key"].splitlines()[1]
    assert secret not in str(provider.stub.requests)
    assert [path for path, _query in provider.stub.requests].count("/token") == 1


def test_requests_and_answers_are_of_the_discovery_documents_types() -> None:
    provider = make_provider("google", days=6, rows=6)
    provider.world.per_page, provider.world.waits = 3, 1
    play, kinds = provider.stub.answer, set()

    def answer(path: str, query: Any, headers: Any) -> Answer:
        found = play(path, query, headers)
        for ending, kind in _TYPES.items():
            if re.search(ending, path):
                kinds.add(kind)
                check("bigquery", kind, found.body)
        if path.endswith("/queries"):
            asked = read_body(query)
            others = ("maxResults", "timeoutMs", "useLegacySql")
            asked |= {name: json.loads(asked[name]) for name in others}
            check("bigquery", "QueryRequest", asked)
            assert asked["useLegacySql"] is False
        return found

    provider.stub.answer = answer
    with running(provider.stub):
        assert _fetch(provider)
    assert kinds == set(_TYPES.values())


def test_a_key_is_tried_and_says_what_it_sees() -> None:
    provider = make_provider("google", days=5, rows=4)
    with running(provider.stub), open_client(KNOWN, provider.key, provider.stub.url) as client:
        sight = KNOWN.look(client, datetime.now(UTC))
        names = list(KNOWN.list_names(client))
    assert sight.identity == ["01ABCD-23EF45-67ABCD"]
    assert sight.projects == 2
    assert sight.first_cost is not None
    assert names == [Name("project", "chat", "Chat"), Name("project", "search", "Search")]


def test_pages_and_slow_queries_are_read_to_their_end() -> None:
    provider = make_provider("google", days=6, rows=6)
    with running(provider.stub):
        whole = _fetch(provider)
        provider.world.per_page, provider.world.waits = 3, 2
        assert _fetch(provider) == whole
        provider.world.waits = 99
        with pytest.raises(ProviderDownError):
            _fetch(provider)


def test_all_queries_of_a_key_wait_no_longer_than_their_job_may_take() -> None:
    """BigQuery answers after 10 seconds that a query isn't done yet."""
    provider = make_provider("google", days=3, rows=2)
    provider.world.exports += ("gcp_billing_export_v1_AAAAAA_BBBBBB_CCCCCC",)
    provider.world.waits = 6
    with running(provider.stub), open_client(KNOWN, provider.key, provider.stub.url) as client:
        with pytest.raises(ProviderDownError):
            KNOWN.look(client, DAY)
        paths = [path for path, _query in provider.stub.requests]
        assert sum("/queries" in path for path in paths) == 3
    with running(provider.stub), pytest.raises(ProviderDownError):
        _fetch(provider)
    assert sum("/queries" in path for path, _query in provider.stub.requests) == 3 + 11


@each_case(
    ("frozen", "read"),
    [
        ((), "billing_export_v1_01ABCD"),
        (("gcp_billing_export_v1_01ABCD_23EF45_67ABCD",), "resource_v1_01ABCD"),
        (("gcp_billing_export_resource_v1_01ABCD_23EF45_67ABCD",), "billing_export_v1_01ABCD"),
    ],
)
def test_of_two_exports_of_an_account_that_is_read_which_is_still_written(
    frozen: tuple[str, ...], read: str
) -> None:
    provider = make_provider("google", days=3, rows=2)
    provider.world.written = dict.fromkeys(frozen, DAY - timedelta(days=60))
    with running(provider.stub):
        assert _fetch(provider)
    [query] = provider.world.queries
    assert read in query["query"][0]


def test_the_detailed_export_counts_where_there_is_no_other() -> None:
    provider = make_provider("google", days=4, rows=3)
    with running(provider.stub):
        whole = _fetch(provider)
        provider.world.exports = provider.world.exports[:1]
        assert _fetch(provider) == whole
        provider.world.exports = ()
        with pytest.raises(MissingRightError):
            _fetch(provider)


def test_a_cost_stays_in_the_month_of_its_invoice() -> None:
    provider = make_provider("google", days=1)
    shared: dict[str, Any] = {
        "project": "p",
        "service": "Vertex AI",
        "sku": "x",
        "currency": "USD",
        "list": None,
    }
    shared |= {"credit": Decimal("-0.5"), "type": "regular", "cost": Decimal(1)}
    october = datetime(2026, 10, 1, tzinfo=UTC)
    provider.world.rows += [
        shared | {"time": october + timedelta(hours=3)},  # still September in California
        shared | {"time": october + timedelta(hours=9)},
        shared | {"time": october - timedelta(days=9), "invoice": date(2026, 10, 1)},  # late
    ]
    with running(provider.stub):
        lines = _fetch(provider, october - timedelta(days=30), october + timedelta(days=30))
    days: dict[date, Decimal] = {}
    for line in lines:
        days[line.bucket.date()] = days.get(line.bucket.date(), Decimal(0)) + line.amount
    assert days == {date(2026, 9, 30): Decimal("0.5"), date(2026, 10, 1): Decimal(1)}
    assert all(line.list_amount is None for line in lines if isinstance(line, CostLine))


@each_case(
    ("status", "reason", "error"),
    [
        (403, "rateLimitExceeded", ThrottledError),
        (403, "accessDenied", MissingRightError),
        (401, "authError", RevokedKeyError),
        (400, "invalidQuery", UnreadableResponseError),
        (403, None, MissingRightError),
    ],
)
def test_an_error_of_bigquery_says_why(status: int, reason: Any, error: type[Exception]) -> None:
    provider = make_provider("google", days=1)
    provider.stub.faults = [_refuse(status, reason)] * 2
    with running(provider.stub), pytest.raises(error):
        _fetch(provider)


def test_a_page_token_that_comes_again_stores_nothing() -> None:
    provider = make_provider("google", days=3, rows=2)
    play = provider.stub.answer

    def answer(path: str, query: Any, headers: Any) -> Answer:
        found = play(path, query, headers)
        if "/queries" in path:
            found.body["pageToken"] = "1"
        return found

    provider.stub.answer = answer
    with running(provider.stub), pytest.raises(UnreadableResponseError):
        _fetch(provider)


@each_case(
    "changed",
    [
        {"private_key": "canary"},
        {"private_key": None},
        {"project_id": "../canary"},
        {"project_id": 5},
        {"client_email": ...},
    ],
)
def test_a_key_is_the_file_of_a_service_account(changed: dict[str, Any]) -> None:
    given = {**json.loads(make_key()), **changed}
    key = json.dumps({name: value for name, value in given.items() if value is not ...})
    for each in (key, "canary", "[]", "{}", "[" * 4_000):
        with pytest.raises(WrongKeyError) as raised, open_client(KNOWN, each):
            pass
        assert (str(raised.value), raised.value.__suppress_context__) == ("", True)
