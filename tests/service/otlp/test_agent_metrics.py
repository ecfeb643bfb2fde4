"""What coding agents count of their own tokens, sent as metrics: totals beside calls.

`agents/*-metrics.json` were sent by Claude Code 2.1.197, Codex 0.171.0 and Gemini CLI 0.61.0, which
talked to a server that imitates their provider; its answers are those of `test_agent_logs`. Other
metrics and the buckets of histograms are cut, and the persons are made up.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import pytest
import time_machine
from flask import Flask
from flask.testing import FlaskClient
from google.protobuf.json_format import ParseDict
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from sqlalchemy import create_engine, func, select
from sqlalchemy.orm import Session, sessionmaker

from service.core.tokens import begin_series_hash
from service.models import AgentPoint, AgentTotal, CallFile, SpanBatch, SpanNotice, SpendRow
from service.models.base import utc_now
from service.models.connections.agent_totals import (
    MAX_MODELS,
    OTHER,
    Measured,
    add_measured,
    delete_old_points,
    delete_old_totals,
)
from service.models.imports.span_notices import find_recent_spans
from service.operations.connections.agent_totals import AGENTS
from service.web.otlp.agent_metrics import COUNTERS, MetricReading
from service.web.otlp.requests import METRIC_READERS
from tests.cases import each_case
from tests.databases import make_database
from tests.service.otlp.requests import JSON, PROTOBUF, attribute
from tests.service.otlp.test_exporter import Unreliable, serving
from tests.service.support.browser import Browser, words_of
from tests.service.support.scenes import Tenant, add_tenant
from tests.service.support.spend import add_plan_usage, add_spend, spend_line
from tests.worker.support.promises import sampled

ROOM: Final = Path(__file__).parent / "agents"
METRICS: Final = "/otlp/v1/metrics"
COUNTS: Final = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
CLAUDE: Final = ("claude-code", "claude-sonnet-4-6", 13_012, 37, 9_000, 4_000)
SENT: Final[dict[str, tuple[Any, ...]]] = {
    "claude-code": CLAUDE,
    "claude-code-cumulative": CLAUDE,
    "codex": ("codex", "gpt-5.4", 5_000, 70, 3_000, 0),
    "gemini-cli": ("gemini-cli", "gemini-2.5-pro", 6_000, 80, 4_000, 0),
}
SECOND: Final = 10**9
DAY: Final = 86_400 * SECOND


def noon() -> int:
    """Yesterday at noon in UTC, in nanoseconds."""
    day = utc_now().replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)
    return int(day.timestamp()) * SECOND


def each_point(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for resource in document["resourceMetrics"]:
        for scope in resource["scopeMetrics"]:
            for metric in scope["metrics"]:
                for kind in ("sum", "histogram", "gauge"):
                    yield from metric.get(kind, {}).get("dataPoints", ())


def recorded(name: str) -> dict[str, Any]:
    """A request as it was sent, moved to yesterday at noon."""
    found: dict[str, Any] = json.loads((ROOM / f"{name}-metrics.json").read_text())
    moved = noon() - max(int(point["timeUnixNano"]) for point in each_point(found))
    for point in each_point(found):
        for member in ("startTimeUnixNano", "timeUnixNano"):
            point[member] = str(int(point[member]) + moved)
    return found


def document(
    *points: dict[str, Any],
    name: str = "claude_code.token.usage",
    kind: str = "sum",
    temporality: Any = 1,
    is_monotonic: bool = True,
) -> dict[str, Any]:
    data = {"aggregationTemporality": temporality, "dataPoints": [*points]}
    data |= {"isMonotonic": is_monotonic} if kind == "sum" else {}
    data = {"dataPoints": [*points]} if kind == "gauge" else data
    scope = {"scope": {"name": "mine"}, "metrics": [{"name": name, kind: data}]}
    return {"resourceMetrics": [{"resource": {"attributes": []}, "scopeMetrics": [scope]}]}


def point(**changed: Any) -> dict[str, Any]:
    labels = {"model": "claude-sonnet-4-6", "type": "input", **changed.pop("labels", {})}
    times = {"startTimeUnixNano": str(noon() - 60 * SECOND), "timeUnixNano": str(noon())}
    attributes = [attribute(*each) for each in labels.items() if each[1] is not None]
    found = {**times, "asDouble": 100.0, "attributes": attributes, **changed}
    return {name: value for name, value in found.items() if value is not None}


def encode(request: dict[str, Any], kind: str) -> bytes:
    if kind == JSON:
        return json.dumps(request).encode()
    return bytes(ParseDict(request, ExportMetricsServiceRequest()).SerializeToString())


def read(request: dict[str, Any], kind: str = JSON) -> MetricReading:
    reading = MetricReading(begin_series_hash("secret", "account"), utc_now())
    METRIC_READERS[kind](encode(request, kind), reading)
    return reading


def send(client: FlaskClient, tenant: Tenant, request: dict[str, Any], kind: str = JSON) -> Any:
    headers = {**tenant.writes, "Content-Type": kind}
    answer = client.post(METRICS, data=encode(request, kind), headers=headers)
    assert answer.status_code == 200, answer.data
    return answer


def totals(session: Session) -> list[tuple[Any, ...]]:
    columns = [getattr(AgentTotal, name) for name in ("agent", "model", *COUNTS)]
    query = select(*columns).order_by(AgentTotal.agent, AgentTotal.day)
    return [tuple(row) for row in session.execute(query)]


def by_day(session: Session) -> dict[date, int]:
    rows = session.execute(select(AgentTotal.day, AgentTotal.prompt_tokens))
    return {day: tokens for day, tokens in rows if tokens}


@each_case("kind", [JSON, PROTOBUF])
@each_case("name", SENT)
def test_an_agents_own_totals_are_read(name: str, kind: str) -> None:
    reading = read(recorded(name), kind)
    sums = dict.fromkeys((*COUNTS, "estimated_usd"), Decimal(0))
    for each in reading.measured:
        assert (each.agent, each.model) == SENT[name][:2]
        for column in each.columns:
            sums[column] += each.amount
    assert tuple(sums[column] for column in COUNTS) == SENT[name][2:]
    usd = Decimal("0.018291") if "claude" in name else Decimal(0)
    assert sums["estimated_usd"] == usd
    assert not reading.refused
    # Sent again, they are the same values.
    assert read(recorded(name), kind).measured == reading.measured


def test_every_agent_has_a_name_and_its_calls_a_provider() -> None:
    assert {counter.agent for counter in COUNTERS.values()} == AGENTS.keys()


def test_the_conventions_histogram_is_copilots_where_github_is_the_provider() -> None:
    labels = {
        "type": None,
        "model": None,
        "gen_ai.token.type": "output",
        "gen_ai.request.model": "gpt-5.4",
        "gen_ai.response.model": "gpt-5.4-2026-03-05",
    }
    points = [
        point(asDouble=None, sum=250.0, count="2", labels={**labels, "gen_ai.provider.name": name})
        for name in ("github", "openai")
    ]
    reading = read(document(*points, name="gen_ai.client.token.usage", kind="histogram"))
    [found] = reading.measured
    assert (found.agent, found.model, int(found.amount)) == ("copilot", "gpt-5.4-2026-03-05", 250)
    assert (found.columns, reading.unused, reading.refused) == (("completion_tokens",), 1, {})


REJECTED: Final[dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]] = {
    "no model, or a type of tokens that we don't know": [
        *(({"labels": {"model": name}}, {}) for name in (None, "one\ntwo", "m" * 201)),
        *(({"labels": {"type": name}}, {}) for name in ("dreams", None)),
    ],
    "a value that isn't a count": [
        *(({"asDouble": value}, {}) for value in (-1.0, 0.5, "NaN", "Infinity", 1e12 + 1, None)),
        (
            {"asDouble": None},
            {"kind": "histogram", "temporality": "AGGREGATION_TEMPORALITY_DELTA"},
        ),
    ],
    "a time that is missing, more than 2 days ago, or more than a day ahead": [
        ({"timeUnixNano": "0"}, {}),
        ({"startTimeUnixNano": None, "timeUnixNano": str(2**62)}, {}),
        ({"startTimeUnixNano": None}, {"temporality": 2}),
    ],
    "not a counter or a histogram": [
        ({}, {"temporality": 0}),
        ({}, {"is_monotonic": False}),
        ({}, {"kind": "gauge"}),
    ],
}


@each_case("kind", [JSON, PROTOBUF])
@each_case(
    ("changed", "metric", "reason"),
    [(*each, reason) for reason, every in REJECTED.items() for each in every],
)
def test_a_data_point_that_cannot_be_read_is_rejected_with_its_reason(
    changed: dict[str, Any], metric: dict[str, Any], reason: str, kind: str
) -> None:
    reading = read(document(point(**deepcopy(changed)), **metric), kind)
    assert (dict(reading.refused), reading.measured) == ({reason: 1}, [])


@each_case("kind", [JSON, PROTOBUF])
def test_what_is_no_value_is_neither_used_nor_rejected(kind: str) -> None:
    for changed in ({"flags": 1}, {"asDouble": 0.0}, {"asInt": "0", "asDouble": None}):
        reading = read(document(point(**changed)), kind)
        assert (reading.refused, reading.measured) == ({}, [])


@each_case("kind", [JSON, PROTOBUF])
def test_series_with_other_attributes_are_others(kind: str) -> None:
    labels: list[dict[str, Any]] = [
        {},
        {"interactive": True},
        {"interactive": False},
        {"tags": ["one", "two"]},
        {"tags": ["one"]},
        {"tags": {"one": "two"}},
        {"tags": {"three": "two"}},
        {"query_source": "subagent"},
        {"query_source": "s" * 1_000 + "1"},
        {"query_source": "s" * 1_000 + "2"},
    ]
    reading = read(document(*[point(labels=each) for each in labels]), kind)
    assert len({each.series for each in reading.measured}) == len(labels)
    # It is the same with what a resource says.
    requests = [document(point()) for _ in labels]
    for request, said in zip(requests, labels, strict=True):
        resource = request["resourceMetrics"][0]["resource"]
        resource["attributes"] = [attribute(*each) for each in said.items()]
    for each in (requests, [{"resourceMetrics": [r["resourceMetrics"][0] for r in requests]}]):
        found = [one for request in each for one in read(request, kind).measured]
        assert len({one.series for one in found}) == len(labels)


@each_case("kind", [JSON, PROTOBUF])
def test_metrics_of_one_scope_and_data_points_of_one_metric_are_series_of_their_own(
    kind: str,
) -> None:
    request = document(point(), point(labels={"type": "output"}))
    [scope] = request["resourceMetrics"][0]["scopeMetrics"]
    scope["metrics"] += document(point(), name="claude_code.cost.usage")["resourceMetrics"][0][
        "scopeMetrics"
    ][0]["metrics"]
    scope["metrics"] += document(point(), temporality=2)["resourceMetrics"][0]["scopeMetrics"][0][
        "metrics"
    ]
    other = deepcopy(scope) | {"scope": {"name": "mine", "version": "2"}}
    request["resourceMetrics"][0]["scopeMetrics"].append(other)
    assert len({each.series for each in read(request, kind).measured}) == 8


@each_case("kind", [JSON, PROTOBUF])
def test_a_large_data_point_is_rejected_undecoded(kind: str) -> None:
    reading = read(document(point(labels={"more": "x" * 70_000}), point()), kind)
    assert (dict(reading.refused), len(reading.measured)) == ({"larger than 64 KiB": 1}, 1)


MALFORMED: Final[list[dict[str, Any]]] = [
    {"flags": "0"},
    {"startTimeUnixNano": []},
    {"attributes": {}},
    {"attributes": [{"key": 7}]},
    {"asDouble": True},
]


@each_case("changed", MALFORMED)
def test_a_malformed_data_point_in_json_is_rejected_alone(changed: dict[str, Any]) -> None:
    request = document(point(), point(**changed), point(asDouble=7.0))
    reading = read(request)
    assert dict(reading.refused) == {"not valid OTLP": 1}
    assert [int(each.amount) for each in reading.measured] == [100, 7]
    request = document(point(), point())
    request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["sum"]["dataPoints"][0] |= {
        "startTimeUnixNano": None
    }
    reading = read(request)
    assert (sum(reading.refused.values()), len(reading.measured)) == (1, 1)


@each_case("text", ["1_000", " 5 ", "٣", "5.", "+5", "0x5", "", "1e", "5" * 41])
def test_other_texts_than_numbers_are_no_counts(text: str) -> None:
    for name in ("asDouble", "asInt"):
        reading = read(document(point(**{"asDouble": None, name: text})))
        assert (dict(reading.refused), reading.measured) == ({"a value that isn't a count": 1}, [])


@each_case(("text", "amount"), [("1000", 1_000), ("1e3", 1_000), ("5.0", 5), ("1000E-2", 10)])
def test_numbers_may_be_texts(text: str, amount: int) -> None:
    [found] = read(document(point(asDouble=text))).measured
    assert int(found.amount) == amount


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_totals_are_stored_once_and_are_no_calls(
    client: FlaskClient, tenant: Tenant, db_session: Session, kind: str
) -> None:
    for name in ("claude-code", "codex", "gemini-cli"):
        for _time in range(2):
            send(client, tenant, recorded(name), kind)
    assert totals(db_session) == [SENT["claude-code"], SENT["codex"], SENT["gemini-cli"]]
    days = set(db_session.scalars(select(AgentTotal.day)))
    assert days == {utc_now().date() - timedelta(days=1)}
    for table in (SpanBatch, CallFile, SpendRow):
        assert db_session.scalar(select(func.count()).select_from(table)) == 0
    stored = repr(db_session.execute(select(*AgentTotal.__table__.columns)).all())
    stored += repr(db_session.execute(select(*AgentPoint.__table__.columns)).all())
    for text in ("CANARY", "0" * 64, "e4e24f8a-ad58", "installation"):
        assert text not in stored


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_the_sender_and_the_account_learn_what_was_rejected(
    client: FlaskClient, tenant: Tenant, db_session: Session, kind: str
) -> None:
    bad = [point(asDouble=-1.0), point(asDouble=0.5), point(labels={"model": None})]
    answer = send(client, tenant, document(*bad, point()), kind)
    expected = (
        "2 data points were rejected: a value that isn't a count. 1 data point was rejected: no"
        " model, or a type of tokens that we don't know."
    )
    if kind == JSON:
        said = answer.get_json()["partialSuccess"]
        assert said == {"rejectedDataPoints": "3", "errorMessage": expected}
    else:
        partial = ExportMetricsServiceResponse.FromString(answer.data).partial_success
        assert (partial.rejected_data_points, partial.error_message) == (3, expected)
    assert by_day(db_session) == {utc_now().date() - timedelta(days=1): 100}
    noticed = {
        row.subject + row.verdict: row.spans for row in db_session.scalars(select(SpanNotice))
    }
    assert noticed["rejected: a value that isn't a count."] == 2
    # The pages say how many spans and log records were read: data points are neither.
    assert find_recent_spans(db_session, tenant.account_id).read == 0


def test_other_metrics_are_not_used(client: FlaskClient, tenant: Tenant) -> None:
    said = send(client, tenant, document(point(), name="http.server.duration")).get_json()
    assert said["partialSuccess"]["rejectedDataPoints"] == "0"
    assert "Other metrics are ignored." in said["partialSuccess"]["errorMessage"]


@pytest.fixture
def add(db_session: Session, tenant: Tenant) -> Callable[..., None]:
    """Adds values of one series: since the beginning up to a time, or of an interval."""

    def add(*values: tuple[int, int, int], series: bytes = b"1", is_delta: bool = False) -> None:
        measured = [
            Measured(
                "claude-code",
                "claude-sonnet-4-6",
                ("prompt_tokens",),
                series,
                is_delta,
                begun,
                ended,
                Decimal(amount),
            )
            for begun, ended, amount in values
        ]
        add_measured(db_session.connection(), tenant.account_id, measured)

    return add


def day_of(time: int) -> date:
    return datetime.fromtimestamp(time // SECOND, UTC).date()


def test_an_interval_counts_once_on_the_day_of_its_end(
    add: Callable[..., None], db_session: Session
) -> None:
    midnight = noon() + DAY // 2
    intervals = [(midnight - 90 * SECOND, midnight - 30 * SECOND, 5)]
    intervals.append((midnight - 30 * SECOND, midnight + 30 * SECOND, 7))
    for sent in (intervals[::-1], intervals, intervals[1:]):
        add(*sent, is_delta=True)
    add(*intervals, intervals[0], series=b"another machine", is_delta=True)
    assert by_day(db_session) == {day_of(midnight - 1): 10, day_of(midnight): 14}


def test_values_since_the_beginning_count_once_in_any_order(
    add: Callable[..., None], db_session: Session
) -> None:
    begun, later = noon(), noon() + DAY // 2
    values = [(begun, begun + SECOND, 10), (begun, begun + 9 * SECOND, 30), (begun, later, 41)]
    orders = list(permutations(values))
    for number, order in enumerate(orders):
        for each in order:
            add(each, series=b"%d" % number)
        add(*order, series=b"%d" % number)  # all of it again, at once
    count = len(orders)
    assert by_day(db_session) == {day_of(begun): 30 * count, day_of(later): 11 * count}


def test_a_process_that_starts_again_counts_from_zero(
    add: Callable[..., None], db_session: Session
) -> None:
    begun = noon()
    add((begun, begun + 60 * SECOND, 100))
    add((begun + 70 * SECOND, begun + 120 * SECOND, 40))
    assert by_day(db_session) == {day_of(begun): 140}
    # Totals are kept as long as spend.
    connection = db_session.connection()
    assert delete_old_totals(connection, 1, 100) == 0
    assert delete_old_totals(connection, 0, 100) == 1
    assert by_day(db_session) == {}


def test_a_process_older_than_what_we_know_counts_from_its_first_value_on(
    add: Callable[..., None], db_session: Session
) -> None:
    begun, now = noon() - 9 * DAY, noon()
    add((begun, now, 1_000_000))
    add((begun, now - DAY, 900_000))  # late, and of a day before the first
    assert by_day(db_session) == {}
    add((begun, now + 60 * SECOND, 1_000_250))
    add((begun, now + DAY // 2, 1_000_300))
    assert by_day(db_session) == {day_of(now): 250, day_of(now + DAY // 2): 50}


def test_a_value_is_forgotten_only_when_it_is_not_taken_again(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    request, connection = recorded("claude-code-cumulative"), db_session.connection()
    send(client, tenant, request)
    before = totals(db_session)
    for hours in (12, 30, 60, 84, 90):
        with time_machine.travel(utc_now() + timedelta(hours=hours), tick=False):
            delete_old_points(connection, 100)
            answer = send(client, tenant, request)
            assert totals(db_session) == before
    assert "more than 2 days ago" in answer.get_json()["partialSuccess"]["errorMessage"]
    assert db_session.scalar(select(func.count()).select_from(AgentPoint)) == 0


def test_models_beyond_the_most_of_a_day_go_together_under_one_name(
    db_session: Session, tenant: Tenant
) -> None:
    def add(*names: str, series: bytes = b"", day: int = 0) -> None:
        begun = noon() - day * DAY
        values = [
            Measured(
                *("codex", name, ("prompt_tokens",), name.encode() + series, True),
                *(begun, begun + SECOND, Decimal(3)),
            )
            for name in names
        ]
        add_measured(db_session.connection(), tenant.account_id, values)

    add(*(f"model-{number}" for number in range(MAX_MODELS - 1)))
    add("model-0", "new-1", "new-2", "new-3", series=b"2")
    add("new-3", "new-1", series=b"3")
    add("new-3", day=1)
    query = select(AgentTotal.model, AgentTotal.prompt_tokens).order_by(AgentTotal.day)
    [earlier, *rows] = db_session.execute(query).all()
    found = {model: tokens for model, tokens in rows}
    assert (tuple(earlier), len(found)) == (("new-3", 3), MAX_MODELS + 1)
    names = ("model-0", "model-1", "new-1", OTHER)
    assert [found[name] for name in names] == [6, 3, 6, 9]


def test_a_total_stops_before_it_is_too_large(
    add: Callable[..., None], db_session: Session, client: FlaskClient, tenant: Tenant
) -> None:
    values = [(noon(), noon() + SECOND + number, 10**12) for number in range(1_100)]
    for series in (b"1", b"2"):
        add(*values, series=series, is_delta=True)
        assert by_day(db_session) == {day_of(noon()): 10**15}
    [found] = client.get("/api/v1/reconciliation", headers=tenant.reads).get_json()["agents"]
    assert found["own_tokens"] == 10**15


def test_requests_at_once_count_each_value_once(database_url: str) -> None:
    engine = create_engine(make_database(database_url))
    tenant, begun = add_tenant(sessionmaker(engine)), noon()
    values = [
        Measured(
            *("codex", "gpt-5.4", ("prompt_tokens",), b"%d" % number, number % 2 == 0),
            *(begun, begun + SECOND, Decimal(10)),
        )
        for number in range(20)
    ]

    def add_all(number: int) -> None:
        with engine.begin() as connection:
            add_measured(connection, tenant.account_id, values[:: 1 if number % 2 else -1])

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(add_all, range(6)))
    with Session(engine) as session:
        assert by_day(session) == {day_of(begun): 200}
    engine.dispose()


@pytest.mark.parametrize(
    "temporality", sampled([AggregationTemporality.DELTA, AggregationTemporality.CUMULATIVE], 2)
)
@pytest.mark.parametrize(
    ("status", "lost"),
    [("429 Too Many Requests", False), ("503 Service Unavailable", True)],
    ids=["refused", "answer lost"],
)
def test_opentelemetrys_exporter_counts_once_whatever_is_sent_again(
    app: Flask,
    tenant: Tenant,
    db_session: Session,
    temporality: AggregationTemporality,
    status: str,
    lost: bool,
) -> None:
    service = Unreliable(app, [status], lost=lost)
    with serving(service) as url:
        programs = [_program(url, tenant.key, f"machine-{each}", temporality) for each in "ab"]
        for round_ in range(3):
            for provider, tokens, histogram in programs:
                tokens.add(100, {"type": "input", "model": "claude-sonnet-4-6", "user.id": "u"})
                histogram.record(7, {"token_type": "output", "model": "gpt-5.4"})
                histogram.record(3, {"token_type": "output", "model": "gpt-5.4"})
                assert provider.force_flush(), round_
        for provider, *_ in programs:
            provider.shutdown()
    assert service.requests >= 7
    assert totals(db_session) == [
        ("claude-code", "claude-sonnet-4-6", 600, 0, 0, 0),
        ("codex", "gpt-5.4", 0, 60, 0, 0),
    ]


def _program(
    url: str, key: str, host: str, temporality: AggregationTemporality
) -> tuple[MeterProvider, Any, Any]:
    exporter = OTLPMetricExporter(
        url.replace("/traces", "/metrics"),
        headers={"Authorization": f"Bearer {key}"},
        timeout=20,
        compression=Compression.Gzip,
        preferred_temporality=dict.fromkeys((Counter, Histogram), temporality),
    )
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    provider = MeterProvider([reader], Resource({"host.name": host}))
    meter = provider.get_meter("mine")
    return (
        provider,
        meter.create_counter("claude_code.token.usage"),
        meter.create_histogram("codex.turn.token_usage"),
    )


def _plan(session: Session, account_id: str) -> date:
    """Add the calls of two of three machines, billed and included; return their day."""
    day = utc_now().date() - timedelta(days=1)
    line = spend_line(day, "0.03", provider="claude-code", model="claude-sonnet-4-6")
    counts = dict(zip(COUNTS, SENT["claude-code"][2:], strict=True))
    add_spend(session, account_id, line | counts)
    add_plan_usage(session, account_id, line | counts)
    others = {"provider": "anthropic", "prompt_tokens": 90_000}
    add_spend(session, account_id, line | others)
    return day


def test_a_machine_that_sends_no_calls_is_not_covered(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    day = _plan(db_session, tenant.account_id)
    spend = client.get("/api/v1/spend", headers=tenant.reads).get_json()
    for machine in ("one", "two", "three"):
        request = recorded("claude-code")
        attributes = request["resourceMetrics"][0]["resource"]["attributes"]
        attributes.append(attribute("host.name", machine))
        send(client, tenant, request)
    own, held = 3 * 13_049, 2 * 13_049
    answer = client.get("/api/v1/reconciliation?lines=model", headers=tenant.reads).get_json()
    [found] = answer["agents"]
    share: dict[str, Any] = {"own_tokens": own, "held_tokens": held}
    share |= {"covered_tokens": held, "coverage": pytest.approx(2 / 3)}
    assert found == {
        "agent": "claude-code",
        "month": f"{day:%Y-%m}",
        **share,
        "estimated_usd": pytest.approx(3 * 0.018291, abs=1e-6),
        "summary": "Claude Code counted 39,147 tokens; your calls have 26,098 of them (66.7%).",
        "lines": [{"key": "claude-sonnet-4-6", **share}],
    }
    assert answer["reconciliations"] == []
    # They are in no spend.
    assert client.get("/api/v1/spend", headers=tenant.reads).get_json() == spend
    for query, count in (("provider=claude-code", 1), ("provider=openai", 0), ("to=2026-01", 0)):
        answer = client.get(f"/api/v1/reconciliation?{query}", headers=tenant.reads).get_json()
        assert len(answer["agents"]) == count


def test_all_calls_stand_beside_what_they_cover_because_they_may_be_of_other_machines(
    browser: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    day = utc_now().date() - timedelta(days=1)
    line = spend_line(day, "0.03", provider="claude-code", model="claude-sonnet-4-6")
    counts = {"prompt_tokens": 880_000, "completion_tokens": 20_000, "cached_tokens": 500_000}
    line |= {**counts, "cache_write_tokens": 100_000}
    add_spend(db_session, tenant.account_id, line)  # of a machine that sends no metrics
    add_spend(db_session, tenant.account_id, line | {"model": "claude-opus-4-5"})
    send(browser, tenant, recorded("claude-code"))  # of one that sends nothing else
    query = "/api/v1/reconciliation?lines=day"
    [found] = browser.get(query, headers=tenant.reads).get_json()["agents"]
    for each in (found, *found["lines"]):
        names = ("own_tokens", "held_tokens", "covered_tokens")
        assert [each[name] for name in names] == [13_049, 900_000, 13_049]
    page = words_of(browser.get("/bill").text)
    assert f"{day:%b %Y} Claude Code 13,049 900,000 13,049 100.0% $0.02" in page
    more = words_of(browser.get(f"/bill/agents/claude-code/{day:%Y-%m}").text)
    assert "claude-sonnet-4-6 13,049 900,000 13,049 100%" in more
    for each in (page, more):
        assert "Calls of machines that send no metrics can hide what is missing." in each


def test_calls_and_totals_of_the_same_traffic_agree_also_around_midnight(
    add: Callable[..., None], client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    first = datetime(2026, 10, 1, tzinfo=UTC)
    midnight = int(first.timestamp()) * SECOND
    add((midnight - 60 * SECOND, midnight + SECOND, 40), is_delta=True)
    add((midnight - 9_000 * SECOND, midnight - 60 * SECOND, 960), is_delta=True)
    line: dict[str, Any] = {"provider": "claude-code", "model": "claude-sonnet-4-6"}
    line |= {"cached_tokens": 0, "cache_write_tokens": 0}
    line |= {"prompt_tokens": 1_000, "completion_tokens": 0}
    add_spend(db_session, tenant.account_id, spend_line(day_of(midnight - 1), **line))
    answer = client.get("/api/v1/reconciliation?lines=day", headers=tenant.reads).get_json()
    lines = [line for found in answer["agents"] for line in found["lines"]]
    assert [(line["key"], line["coverage"]) for line in lines] == [
        ("2026-10-01", 1.0),
        ("2026-09-30", 1.0),
    ]


def test_the_bill_shows_an_agents_own_totals_beside_calls(
    browser: FlaskClient, eve: Browser, tenant: Tenant, db_session: Session
) -> None:
    assert "Coding agents" not in words_of(browser.get("/bill").text)
    day = _plan(db_session, tenant.account_id)
    send(browser, tenant, recorded("claude-code"))
    page = browser.get("/bill").text
    assert f"{day:%b %Y} Claude Code 13,049 26,098 13,049 100.0% $0.02" in words_of(page)
    path = f"/bill/agents/claude-code/{day:%Y-%m}"
    assert f'href="{path}"' in page
    page = words_of(browser.get(path).text)
    assert "Claude Code counted 13,049 tokens; your calls have 13,049 of them (100%)." in page
    assert "claude-sonnet-4-6 13,049 26,098 13,049 100%" in page
    for missing in ("/bill/agents/codex/2026-01", "/bill/agents/claude-code/now"):
        assert browser.get(missing).status_code == 404
    eve.get(path, status=404)
