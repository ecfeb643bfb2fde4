"""The stubs answer as the providers' own libraries describe it."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import service.connections
from service.connections import list_providers
from service.connections.client import Client
from service.connections.openai.reports import REPORTS, classify
from service.connections.provider import Window
from service.connections.stub import running
from tests.cases import data_of, each_case
from tests.service.connections.worlds import Provider, make_provider

DAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=2)
OTHERS: dict[str, dict[str, Any]] = {
    "embeddings": {"input_tokens": 5, "num_model_requests": 1, "model": "text-embedding-3-small"},
    "moderations": {"input_tokens": 5, "num_model_requests": 1, "model": "omni-moderation-latest"},
    "images": {"images": 2, "num_model_requests": 1, "model": "dall-e-3"},
    "audio_speeches": {"characters": 90, "num_model_requests": 1, "model": "tts-1"},
    "audio_transcriptions": {"seconds": 60, "num_model_requests": 1, "model": "whisper-1"},
    "vector_stores": {"usage_bytes": 1_000},
    "code_interpreter_sessions": {"num_sessions": 3},
    "file_search_calls": {"num_requests": 4},
    "web_search_calls": {"num_requests": 4, "num_model_requests": 4, "model": "gpt-4o"},
}


@pytest.fixture(scope="module")
def openai_stub() -> Iterator[Provider]:
    provider = make_provider("openai", days=4, rows=4)
    for kind, counts in OTHERS.items():
        provider.world.usage[kind].append({"time": DAY, "project_id": "proj_1", **counts})
    with running(provider.stub):
        yield provider


@pytest.fixture(scope="module")
def anthropic_stub() -> Iterator[Provider]:
    provider = make_provider("anthropic", days=4, rows=4)
    for row in provider.world.usage:
        row["inference_geo"] = "global"
    with running(provider.stub):
        yield provider


def _get(provider: Provider, path: str, *query: tuple[str, str]) -> Any:
    base = "/v1" if provider.name == "openai" else ""
    known = list_providers()[provider.name]
    with Client(known, provider.key, f"{provider.stub.url}{base}") as client:
        return client.get(path, query)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_openais_reports_are_of_the_librarys_types(openai_stub: Provider, report: Any) -> None:
    from openai.types.admin import organization as types

    known = list_providers()["openai"]
    query = known.parameters(Window(report, DAY - timedelta(days=1), None), None)
    body = _get(openai_stub, report.path, *query)
    kind = report.path.rpartition("/")[2]
    name = "".join(word.title() for word in kind.split("_"))
    model = getattr(types, f"Usage{name}Response")
    read = model.model_validate_json(json.dumps(body))
    results = [row for bucket in read.data for row in bucket.results]
    assert results
    shown = {type(row).__name__ for row in results}
    assert len(shown) == 1, shown
    fields = {name for row in results for name in row.model_extra or {}}
    assert not fields
    lines = [line for found in known.read_page(report, body).buckets.values() for line in found]
    assert len(lines) == len(results)


def test_openais_projects_and_keys_are_of_the_librarys_types(openai_stub: Provider) -> None:
    from openai.types.admin.organization.project import Project
    from openai.types.admin.organization.projects.project_api_key import ProjectAPIKey

    projects = _get(openai_stub, "/organization/projects")["data"]
    keys = _get(openai_stub, "/organization/projects/proj_1/api_keys")["data"]
    assert [Project.model_validate(each).name for each in projects][:1] == ["Project 0"]
    assert [ProjectAPIKey.model_validate(each).name for each in keys] == ["Key 1"]


def test_the_library_itself_reads_openais_stub(openai_stub: Provider) -> None:
    from openai import OpenAI

    library = OpenAI(
        api_key="", admin_api_key=openai_stub.key, base_url=f"{openai_stub.stub.url}/v1"
    )
    page = library.admin.organization.usage.completions(
        start_time=int((DAY - timedelta(days=1)).timestamp()), group_by=["model"]
    )
    assert any(row.model for bucket in page.data for row in bucket.results)


def test_anthropics_names_are_of_the_librarys_types(anthropic_stub: Provider) -> None:
    from anthropic.types.beta.beta_organization import BetaOrganization
    from anthropic.types.beta.organization.beta_api_key import BetaAPIKey
    from anthropic.types.beta.organization.beta_workspace import BetaWorkspace

    root = "/v1/organizations"
    assert BetaOrganization.model_validate(_get(anthropic_stub, f"{root}/me")).name == "Acme"
    for row in _get(anthropic_stub, f"{root}/workspaces")["data"]:
        BetaWorkspace.model_validate(row)
    for row in _get(anthropic_stub, f"{root}/api_keys")["data"]:
        BetaAPIKey.model_validate(row)


def test_anthropics_counts_are_those_of_the_librarys_analytics(anthropic_stub: Provider) -> None:
    """The library describes no report of messages; its analytics have the same counts."""
    from anthropic.types.beta.organization.beta_analytics_usage_report_time_bucket import (
        BetaAnalyticsUsageReportTimeBucket,
    )

    body = _get(
        anthropic_stub,
        "/v1/organizations/usage_report/messages",
        ("starting_at", (DAY - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")),
        *(("group_by[]", name) for name in ("model", "context_window", "inference_geo")),
    )
    buckets = [BetaAnalyticsUsageReportTimeBucket.model_validate(each) for each in body["data"]]
    assert any(bucket.results for bucket in buckets)


def test_anthropics_analytics_are_of_the_librarys_types() -> None:
    from anthropic.types.beta.organization.analytics import BetaAnalyticsCostItem

    provider = make_provider("anthropic", days=4, rows=4)
    provider.world.has_analytics = True
    known = list_providers()["anthropic"]
    [report] = [each for each in known.reports if each.name == "analytics_costs"]
    window = Window(report, DAY - timedelta(days=1), DAY + timedelta(days=1))
    with running(provider.stub), Client(known, provider.key, provider.stub.url) as client:
        body = client.get(report.path, known.parameters(window, None), report.headers)
    rows = [BetaAnalyticsCostItem.model_validate(each) for each in body["data"]]
    assert rows
    assert all(row.cost.amount == row.cost.list_amount for row in rows)


def test_openrouters_stub_answers_with_the_documented_members() -> None:
    provider = make_provider("openrouter", days=3, rows=2)
    folder = Path(service.connections.__file__).parent / "openrouter" / "fixtures"
    [documented] = json.loads((folder / "activity.json").read_text())["response"]["data"]
    with running(provider.stub):
        rows = _get(provider, "/activity")["data"]
        grouped = _get(provider, "/activity", ("group_by", "workspace"))["data"]
    assert [row.keys() for row in rows] == [documented.keys()] * 4
    assert {row["workspace_id"] for row in grouped} <= provider.world.workspaces.keys()


@each_case(
    ("line_item", "kind", "model"),
    data_of(__file__)["a_line_item_is_tokens_of_a_model_or_a_fee"],
)
def test_a_line_item_is_tokens_of_a_model_or_a_fee(line_item: str, kind: str, model: str) -> None:
    assert classify(line_item) == (kind, model)
