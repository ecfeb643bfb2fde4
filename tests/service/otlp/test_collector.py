"""An OpenTelemetry Collector between the exporters and us, with the settings of the guide.

The stress tests run one: `OTELCOL` names it, or it is `otelcol` or `otelcol-contrib` on the path.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from opentelemetry.sdk.trace.export import SpanExportResult
from sqlalchemy.orm import Session

from service.core.blobs import BlobStore
from service.operations.maintenance.span_imports import close_import
from service.web.otlp.content import published_name
from tests.service.otlp.recording import (
    COLLECTED,
    EXPORTS,
    collector_settings,
    export_path,
    running_collector,
)
from tests.service.otlp.requests import read, records_of
from tests.service.otlp.test_exporter import Unreliable, exporter_to, finished_span, serving
from tests.service.support.scenes import Tenant
from tests.worker.support.waiting import wait_until


@pytest.fixture
def otelcol() -> str:
    """The command of a Collector."""
    named = os.environ.get("OTELCOL")
    found = named or shutil.which("otelcol") or shutil.which("otelcol-contrib")
    if found is None:
        pytest.skip("No OpenTelemetry Collector found. Set OTELCOL to its path.")
    return found


def test_the_guides_pipeline_has_every_part_and_drops_what_is_rejected() -> None:
    settings = collector_settings()
    (pipeline,) = settings["service"]["pipelines"].values()
    for kind in ("receivers", "processors", "exporters"):
        assert list(settings[kind]) == pipeline[kind]
    (exporter,) = settings["exporters"].values()
    assert exporter["compression"] == "gzip"
    assert exporter["headers"] == {"Authorization": "Bearer ${env:INGEST_KEY}"}
    (action,) = settings["processors"]["attributes/no-text"]["actions"]
    for name in ("gen_ai.input.messages", "gen_ai.output.messages", "request_data"):
        assert published_name(name)
        assert re.search(action["pattern"], name)
    assert not re.search(action["pattern"], "gen_ai.usage.input_tokens")


def test_what_a_collector_sends_counts_as_what_it_got() -> None:
    """Its version 0.152 made one request of four recorded exports."""
    sent = [each for name in COLLECTED for each in _recorded(export_path(name, "off"))]
    assert sorted(_recorded(EXPORTS / "collector.bin"), key=str) == sorted(sent, key=str)


def _recorded(path: Path) -> list[dict[str, Any]]:
    return records_of(read(path.read_bytes()))


@pytest.mark.stress
@pytest.mark.usefixtures("imported_at_once")
@pytest.mark.parametrize("lost", [False, True], ids=["refused", "answer lost"])
def test_a_real_collector_sends_again_what_is_refused_for_now(
    app: Flask, tenant: Tenant, db_session: Session, blobs: Path, otelcol: str, lost: bool
) -> None:
    service = Unreliable(app, ["503 Service Unavailable", "429 Too Many Requests"], lost=lost)
    with serving(service) as url, running_collector(otelcol, _base(url), tenant.key) as receiver:
        for _ in range(3):
            assert exporter_to(receiver, "").export(finished_span()) == SpanExportResult.SUCCESS
        # A Collector that ends drops what it would send again.
        wait_until(lambda: service.requests == 3, 60)
    store = BlobStore.from_url(blobs.as_uri())
    (audit_id,) = close_import(db_session.connection(), store, tenant.account_id)
    assert len(store.get(f"raw/{audit_id}.jsonl").splitlines()) == 3


@pytest.mark.stress
def test_a_real_collector_does_not_repeat_what_is_rejected(
    app: Flask, tenant: Tenant, otelcol: str
) -> None:
    service = Unreliable(app, [], lost=False)
    with serving(service) as url, running_collector(otelcol, _base(url), tenant.key) as receiver:
        span = finished_span(**{"input.value": "canary-text"})
        assert exporter_to(receiver, "").export(span) == SpanExportResult.SUCCESS
    assert service.requests == 1


def _base(url: str) -> str:
    return url.removesuffix("/v1/traces")
