"""/metrics combines all processes, in a bounded number of files and without secrets."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.service.support.metrics_table import documented, exposed
from tests.service.support.receiver import Received, attributes_of, running_receiver, spans_of
from tests.warm import WarmProcess
from tests.worker.conftest import SHORT, started_system
from tests.worker.support.system import System, free_port
from tests.worker.support.waiting import wait_until

PROCESSES = 4  # that count: two of the web, two workers
RESTARTS = 2
JOBS_DONE = "tallystick_job_seconds_count"


class Counted:
    """A running service, and the port of its metrics."""

    def __init__(self, system: System, folder: Path, port: int, traces: Received) -> None:
        self.system = system
        self.traces = traces
        self.folder = folder
        self._url = f"http://127.0.0.1:{port}/metrics"

    def text(self) -> str:
        answer = requests.get(self._url, timeout=60)
        assert answer.status_code == 200
        return answer.text

    def value(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name that have these labels."""
        samples = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", self.text(), re.MULTILINE)
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(number) for found, number in samples if all(w in found for w in wanted))

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("*.db"))


@pytest.fixture(scope="module")
def counted() -> Iterator[Counted]:
    with tempfile.TemporaryDirectory() as folder, running_receiver() as traces:
        port = free_port()
        settings = {"METRICS_FOLDER": folder, "METRICS_PORT": str(port)}
        settings |= {"TRACES_URL": f"http://127.0.0.1:{traces.port}/v1/traces", "TRACES_SHARE": "1"}
        with started_system(sweepers=0, **SHORT, **settings) as system:
            log_file = system.folder / "metrics.log"
            process = WarmProcess(("service", "metrics"), system.environment, log_file)
            found = Counted(system, Path(folder), port, traces)
            wait_until(lambda: _answers(found), 20)
            yield found
            process.terminate()
            assert process.wait() == 0


def _answers(counted: Counted) -> bool:
    try:
        return bool(counted.text())
    except requests.ConnectionError:
        return False


def test_requests_are_counted_over_all_processes_by_the_routes_pattern(counted: Counted) -> None:
    before = counted.value("tallystick_requests_total", route="/r/<token>", status="404")
    for number in range(20):
        requests.get(f"{counted.system.base_url}/r/secret-token-{number}", timeout=60)
        requests.get(f"{counted.system.base_url}/nowhere-{number}", timeout=60)
    requests.request("BREW", f"{counted.system.base_url}/", timeout=60)
    found = counted.value("tallystick_requests_total", route="/r/<token>", status="404")
    assert found == before + 20
    assert counted.value("tallystick_requests_total", route="none", status="404") >= 20
    assert counted.value("tallystick_requests_total", method="other") >= 1
    assert counted.value("tallystick_request_seconds_count", route="/r/<token>") == found
    text = counted.text()
    assert not any(word in text for word in ("secret-token", "nowhere-", "BREW"))


def test_audits_are_timed_by_stage_and_counted_by_end(counted: Counted) -> None:
    audit_ids = counted.system.ingest(4)
    counted.system.wait_done(audit_ids, 30)
    wait_until(lambda: counted.value("tallystick_audit_starts_total", end="done") >= 4, 5)
    assert counted.value("tallystick_audited_records_total", scope="import") > 0
    assert counted.value("tallystick_job_wait_seconds_count", kind="audit") >= 1
    wait_until(lambda: counted.value(JOBS_DONE, kind="audit", outcome="done") >= 1, 5)
    for stage in ("read", "audit", "store", "publish"):
        assert counted.value("tallystick_audit_stage_seconds_count", stage=stage) >= 4
        assert counted.value("tallystick_audit_stage_seconds_sum", stage=stage) > 0


def test_saturation_is_measured_where_requests_and_audits_wait(counted: Counted) -> None:
    counted.system.wait_done(counted.system.ingest(1), 30)
    assert counted.value("tallystick_accepted_records_total", source="ingest") > 0
    assert counted.value("tallystick_slot_wait_seconds_count", outcome="served") > 0
    assert counted.value("tallystick_database_pool_wait_seconds_count", outcome="ready") > 0
    for operation in ("write", "open"):
        assert counted.value("tallystick_blob_seconds_count", operation=operation) > 0


def test_a_trace_leads_through_the_processes_to_the_published_report(counted: Counted) -> None:
    """From the web process, over the row, to the process that audits."""
    (audit_id,) = counted.system.ingest(1)
    counted.system.wait_done([audit_id], 30)
    expected = {"POST /api/v1/ingest", "enqueue", "audit", "read", "store", "publish"}
    wait_until(lambda: _names_of_trace(counted.traces, audit_id) == expected, 20)
    kept = counted.system.rows("SELECT count(*) FROM audits WHERE traceparent IS NOT NULL")
    assert kept[0][0] == 0


def _names_of_trace(received: Received, audit_id: str) -> set[str]:
    """Return the names of the spans in the trace that has this audit."""
    spans = spans_of(received)
    (trace_id,) = {span.trace_id for span in spans if audit_id in attributes_of(span).values()} or {
        b""
    }
    return {span.name for span in spans if span.trace_id == trace_id}


def test_every_exported_metric_is_in_the_docs(counted: Counted) -> None:
    found = exposed(counted.text())
    assert len(found) > 30
    assert found.items() <= documented().items()


def test_files_do_not_multiply_and_outlive_their_processes(counted: Counted) -> None:
    system = counted.system
    system.wait_done(system.ingest(3), 30)
    for _ in range(RESTARTS):
        system.restart_process("worker-0")
    system.kill_web()
    wait_until(system.is_ready, 20)
    before = counted.value("tallystick_audit_starts_total", end="done")
    system.wait_done(system.ingest(3), 30)
    wait_until(lambda: counted.value("tallystick_audit_starts_total", end="done") >= before + 3, 5)
    # A job's process may still end while the next worker starts. Without a reused number, there
    # would be two files more for each restart, and for the web.
    assert len(counted.files()) < 2 * (PROCESSES + RESTARTS)


def test_waiting_items_are_counted_by_source_with_their_age(counted: Counted) -> None:
    system = counted.system
    system.stop_workers()
    system.mend(with_workers=False)
    system.ingest(3)
    waiting = {"source": "ingest", "status": "queued"}
    assert counted.value("tallystick_audits_waiting", **waiting) == 3
    assert 0 < counted.value("tallystick_audits_oldest_seconds", **waiting) < 600
    assert counted.value("tallystick_wake_ups", queue="ingest") == 3
    assert counted.value("tallystick_audits_waiting", source="upload") == 0


def test_totals_are_exported_for_every_state(counted: Counted) -> None:
    text = counted.text()
    for name, label, states in (
        ("audits", "status", ("queued", "processing", "done", "failed")),
        ("mails", "status", ("queued", "sending", "sent", "failed")),
        ("credits", "state", ("granted", "claimed", "returned", "revoked", "free")),
        ("payment_events", "provider", ("stripe", "paddle")),
    ):
        for state in states:
            assert f'tallystick_{name}{{{label}="{state}"}}' in text


def test_webhooks_are_counted_by_provider_and_outcome(counted: Counted) -> None:
    url = f"{counted.system.base_url}/api/v1/webhooks/stripe"
    before = counted.value("tallystick_webhooks_total", provider="stripe", outcome="refused")
    requests.post(url, data=b"{}", timeout=60)
    found = counted.value("tallystick_webhooks_total", provider="stripe", outcome="refused")
    assert found == before + 1


def test_an_unavailable_server_is_reported_and_the_rest_continues(counted: Counted) -> None:
    assert counted.value("tallystick_up", component="database") == 1
    counted.system.servers.stop_redis()
    assert counted.value("tallystick_up", component="redis") == 0
    assert counted.value("tallystick_up", component="database") == 1
    counted.system.servers.start_redis()
    wait_until(lambda: counted.value("tallystick_up", component="redis") == 1, 10)
