"""A client generated from /openapi.json by a common tool works, without warnings."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import requests

from tests.service.support.live import LiveService
from tests.service.support.scenes import Tenant, record
from tests.service.support.uploads import add_person

CSV = (
    b"ts,provider,model,prompt_tokens,completion_tokens\n"
    b"2026-03-01T12:00:00Z,openai,gpt-4o-mini,100,10\n"
)
NAME = "generated_tallystick_client"
SETTINGS = 'post_hooks: []\ncontent_type_overrides: {"application/pdf": application/octet-stream}\n'


@pytest.fixture(scope="module")
def generated(live: LiveService, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Imports modules of the generated package."""
    folder = tmp_path_factory.mktemp("generated")
    document, settings = folder / "openapi.json", folder / "settings.yml"
    document.write_bytes(requests.get(f"{live.url}/openapi.json", timeout=60).content)
    settings.write_text(SETTINGS)
    program = Path(sys.executable).with_name("openapi-python-client")
    options = [f"--path={document}", f"--config={settings}", f"--output-path={folder / NAME}"]
    command = [str(program), "generate", "--meta=none", "--fail-on-warning", *options]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    sys.path.insert(0, str(folder))

    def load(path: str) -> ModuleType:
        return importlib.import_module(f"{NAME}.{path}")

    yield load
    sys.path.remove(str(folder))
    for name in [one for one in sys.modules if one.startswith(NAME)]:
        del sys.modules[name]


@pytest.fixture
def person(live: LiveService) -> Tenant:
    return live.add_tenant()


@pytest.fixture
def connect(generated: Any, live: LiveService) -> Iterator[Callable[..., Any]]:
    """Clients of the live service: with a token, or with what a browser sends."""
    opened = []

    def open_client(token: str = "", headers: dict[str, str] | None = None) -> Any:
        module = generated("client")
        client = (
            module.AuthenticatedClient(base_url=live.url, token=token)
            if token
            else module.Client(base_url=live.url, headers=headers)
        )
        opened.append(client)
        return client

    yield open_client
    for client in opened:
        client.get_httpx_client().close()


def test_it_ingests_lists_and_reads(generated: Any, connect: Any, person: Tenant) -> None:
    models = generated("models")
    batch = models.Batch(records=[models.UsageRecord.from_dict(record(tag="bot"))])
    ingest = generated("api.ingest.ingest_batch")
    client = connect(person.key)
    accepted = ingest.sync(client=client, body=batch, idempotency_key="once")
    assert isinstance(accepted, models.Accepted)
    again = ingest.sync(client=client, body=batch, idempotency_key="once")
    assert isinstance(again, models.Replayed)
    assert again.audit_id == accepted.audit_id

    reader = connect(person.token)
    listed = generated("api.audits.list_audits").sync(client=reader, limit=5)
    assert [one.id for one in listed.audits] == [accepted.audit_id]
    named = {"client": reader, "audit_id": accepted.audit_id}
    summary = generated("api.audits.get_audit").sync(**named)
    assert (summary.id, summary.records) == (accepted.audit_id, 1)
    findings = generated("api.audits.list_findings").sync(**named)
    assert (findings.audit_id, findings.findings) == (accepted.audit_id, [])
    report = generated("api.audits.get_report").sync(**named)
    assert isinstance(report, models.Error)
    assert report.error.code == "not_found"


def test_it_uploads_and_follows_the_status(generated: Any, connect: Any, live: LiveService) -> None:
    browser = add_person(live.sessions, credits=1)
    client = connect(headers=browser.headers)
    types, models = generated("types"), generated("models")
    body = models.UploadLogBody(file=types.File(payload=BytesIO(CSV), file_name="log.csv"))
    uploaded = generated("api.uploads.upload_log").sync(client=client, body=body)
    assert isinstance(uploaded, models.Uploaded), uploaded
    status = generated("api.audits.get_status").sync(client=client, audit_id=uploaded.audit_id)
    assert status.status == "queued"
    refused = generated("api.uploads.upload_log").sync(client=client, body=body)
    assert refused.error.code == "payment_required"


def test_it_reads_errors_as_such(generated: Any, connect: Any) -> None:
    reader = connect("rt_nothing")
    answer = generated("api.audits.list_audits").sync_detailed(client=reader)
    assert answer.status_code == 401
    assert answer.parsed.error.code == "unauthorized"
