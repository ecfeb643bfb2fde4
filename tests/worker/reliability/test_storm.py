"""Outages of disk, bucket, database and Redis under all kinds of traffic, for half an hour.

What was accepted is done once, and nothing failed that a person would have to rerun. STORM_MINUTES
makes it shorter. The smaller proofs are in `jobs/test_outages.py` and `storage/test_deadlines.py`.
"""

import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import requests
from sqlalchemy.exc import SQLAlchemyError

from detectors.report.account.call_files import read_calls
from service.config import Config
from service.core.blobs import BlobStore
from service.core.db import make_engine, make_session_factory
from service.jobs.queues import AuditQueues
from service.models.audits.audits import ACCOUNT
from service.models.calls.account_audits import DEFAULT_WINDOW, queue_account_audit
from tests.notice_receiver import Receiver, running_receiver
from tests.service.otlp.requests import CHAT, PROTOBUF, as_protobuf, document, span
from tests.service.support.scenes import sign_in
from tests.service.support.uploads import Person, give_credits, upload
from tests.silent_postgres import SilentPostgres, running_silent_postgres
from tests.worker.conftest import SHORT
from tests.worker.support.faulty_s3 import FAULTS, WORKS, running_s3
from tests.worker.support.limited_disk import full, limited_disk, read_only
from tests.worker.support.notices import add_target_at
from tests.worker.support.promises import Note, in_full_only
from tests.worker.support.system import UNLIMITED, System
from tests.worker.support.traffic import batch
from tests.worker.support.waiting import wait_until

MINUTES: Final = float(os.environ.get("STORM_MINUTES", "30"))
OWNER: Final = "first@example.com"
RECORDS: Final = 60
# Of each fault's time; the rest is calm. A shorter storm has fewer rounds, not shorter faults: each
# lasts as long as three attempts of a worker at an audit that fails, and some more.
FAULT_SHARE: Final = 0.75
ROUNDS: Final = 2
LEAST_SECONDS: Final = 20.0
# The audits that wait, or are in progress, when a fault begins: while it lasts, few are accepted.
BACKLOG: Final = 30
HELD_SECONDS: Final = 3.0
LONGEST_SECONDS: Final = 10.0
RECOVERY_SECONDS: Final = 5.0
SETTLING_SECONDS: Final = 240.0
_EVENT: Final = re.compile(r'"event": "([a-z_]+)"')
ACCEPTED: Final = frozenset((200, 201))
SETTINGS: Final = {
    "UPLOAD_LIMIT_PER_MINUTE": UNLIMITED,
    "READ_LIMIT_PER_MINUTE": UNLIMITED,
    "NOTICES_PRIVATE_TARGETS": "on",
    **SHORT,
}

# A fault lasts as long as its block.
Fault = Callable[[], AbstractContextManager[None]]


class Storm:
    """All kinds of traffic against one service, each request again until it is accepted."""

    def __init__(self, system: System, receiver: Receiver) -> None:
        self.system = system
        self.config = Config.from_environment(system.environment)
        self.engine = make_engine(self.config)
        sessions = make_session_factory(self.engine)
        headers = sign_in(sessions, OWNER, self.config.secret_key)
        self.person: Person = give_credits(sessions, OWNER, 5_000, headers)
        system.execute("UPDATE accounts SET report_mails = 'each'")
        add_target_at(self.engine, self.person.account_id, receiver.url())
        self.receiver = receiver
        self.accepted: dict[str, set[str]] = {"batch": set(), "file": set(), "download": set()}
        self.request_ids = Counter[str]()
        self.statuses = Counter[tuple[str, int]]()
        self.slowest: dict[str, float] = {}
        self.recoveries: dict[str, float] = {}
        self.faults = 0
        self.errors: list[BaseException] = []
        self._seeds, self._done = count(1), threading.Event()
        self._lock = threading.Lock()

    def blow(self, faults: Sequence[tuple[str, Fault]], seconds: float) -> None:
        """Let each fault happen in turn, in rounds, while the traffic goes on."""
        senders = [self._ingest, self._ingest, self._upload, self._export, self._download]
        threads = [threading.Thread(target=self._repeat, args=[each]) for each in senders]
        threads.append(threading.Thread(target=self._repeat, args=[self._make_due, 3.0]))
        for thread in threads:
            thread.start()
        rounds = min(ROUNDS, max(1, round(seconds / len(faults) / LEAST_SECONDS)))
        share = max(seconds / len(faults) / rounds, LEAST_SECONDS)
        try:
            for _ in range(rounds):
                for name, fault in faults:
                    self._gather()
                    with fault():
                        self.system.delay_audits(0.0)
                        time.sleep(share * FAULT_SHARE)
                    self._measure_recovery(name)
                    time.sleep(share * (1 - FAULT_SHARE))
        finally:
            self._done.set()
            for thread in threads:
                thread.join()
        assert not self.errors, self.errors

    def _gather(self) -> None:
        """Let workers hold the audits that they claim, and many others wait."""
        self.system.delay_audits(HELD_SECONDS)
        for _ in range(BACKLOG):
            self._ingest()

    def _repeat(self, work: Callable[[], None], pause: float = 0.4) -> None:
        try:
            while not self._done.wait(pause):
                work()
        except BaseException as error:
            self.errors.append(error)
            raise

    # What clients do

    def _send(self, kind: str, send: Callable[[], requests.Response]) -> requests.Response:
        """Return the response that accepts; every other must say that it is worth a retry."""
        while True:
            began = time.monotonic()
            try:
                response = send()
            except requests.RequestException:
                status = 0
            else:
                status = response.status_code
            with self._lock:
                seconds = time.monotonic() - began
                self.slowest[kind] = max(self.slowest.get(kind, 0.0), seconds)
                self.statuses[kind, status] += 1
            if status in ACCEPTED:
                return response
            time.sleep(0.5)

    def _records(self) -> tuple[bytes, list[dict[str, Any]]]:
        body = batch(RECORDS, next(self._seeds))
        return body, json.loads(body)["records"]

    def _note(self, kind: str, audit_id: str, records: Sequence[dict[str, Any]]) -> None:
        with self._lock:
            self.accepted[kind].add(audit_id)
            self.request_ids.update(record["request_id"] for record in records)

    def _ingest(self) -> None:
        (body, records), key = self._records(), uuid4().hex
        response = self._send("batch", lambda: self.system.post(body, idempotency_key=key))
        self._note("batch", response.json()["audit_id"], records)

    def _upload(self) -> None:
        _body, records = self._records()
        file, key = b"".join(json.dumps(each).encode() + b"\n" for each in records), uuid4().hex
        send = partial(upload, self.system.base_url, self.person, file, key=key)
        self._note("file", self._send("file", send).json()["audit_id"], records)

    def _export(self) -> None:
        spans = [span(CHAT) for _ in range(10)]
        headers = {"Authorization": f"Bearer {self.system.key}", "Content-Type": PROTOBUF}
        url, body = f"{self.system.base_url}/otlp/v1/traces", as_protobuf(document(*spans))
        self._send("spans", lambda: requests.post(url, body, headers=headers, timeout=60))
        with self._lock:
            self.request_ids.update(f"{each['traceId']}-{each['spanId']}" for each in spans)

    def _download(self) -> None:
        """Download the calls behind a finding that nobody has asked for yet."""
        found = self._ask("SELECT audit_id, id FROM findings ORDER BY random() LIMIT 1")
        for audit_id, finding_id in found or ():
            path = f"/audits/{audit_id}/calls/{finding_id}.csv"
            url = f"{self.system.base_url}{path}"
            get = partial(requests.get, url, headers=self.person.headers, timeout=60)
            assert self._send("download", get).content
            self.accepted["download"].add(path)

    def _make_due(self) -> None:
        """Let time pass for spans, and ask for an audit of the account."""
        with suppress(SQLAlchemyError):
            self._age_spans()
            with self.engine.begin() as connection:
                account_id = self.person.account_id
                audit_id = queue_account_audit(connection, account_id, DEFAULT_WINDOW)
            if audit_id is not None:
                AuditQueues.from_config(self.config).enqueue_audit(audit_id, ACCOUNT)

    def _age_spans(self) -> None:
        aged = "UPDATE span_batches SET received_at = received_at - interval '2 hours'"
        self.system.execute(f"{aged} WHERE received_at > now() - interval '1 hour'")

    def _ask(self, query: str) -> Sequence[Any] | None:
        try:
            return self.system.rows(query)
        except SQLAlchemyError:
            return None

    def _measure_recovery(self, name: str) -> None:
        """Measure how long a client waits for its next batch after a fault."""
        self.faults += 1
        began = time.monotonic()
        self._ingest()
        seconds = time.monotonic() - began
        self.recoveries[name] = max(self.recoveries.get(name, 0.0), seconds)

    # What is there afterwards

    def wait_for_all(self) -> None:
        """Wait until nothing waits; nobody helps."""
        waiting = (
            "SELECT 1 FROM span_batches WHERE calls > 0",
            "SELECT 1 FROM audits WHERE status IN ('queued', 'processing')",
            "SELECT 1 FROM mails WHERE status IN ('queued', 'sending')",
            "SELECT 1 FROM notice_deliveries WHERE status IN ('queued', 'sending')",
        )
        self._age_spans()
        # Mails and notices have long pauses of their own.
        self.system.execute("UPDATE mails SET next_attempt_at = now() WHERE status = 'queued'")
        self.system.execute("UPDATE notice_deliveries SET next_attempt_at = now()")
        self.system.execute("UPDATE notice_targets SET resume_at = now()")
        for query in waiting:
            wait_until(partial(lambda query: self._ask(query) == [], query), SETTLING_SECONDS)

    def count(self, query: str) -> int:
        return int(self.system.rows(query)[0][0])

    def count_lost_audits(self) -> int:
        ids = self.accepted["batch"] | self.accepted["file"]
        reports = self.system.reports_of(ids)
        done = {row.id for row in self.system.rows("SELECT id FROM audits WHERE status = 'done'")}
        return len(ids - done) + sum(reports.get(audit_id) != 1 for audit_id in ids)

    def count_wrong_calls(self) -> int:
        """Count the calls that aren't in the account exactly once."""
        blobs = BlobStore.from_url(self.config.storage_url)
        found = Counter[str]()
        for (key,) in self.system.rows("SELECT blob_key FROM call_files WHERE replaced_at IS NULL"):
            with blobs.open(key) as file:
                found.update(read_calls(file)["request_id"])
        wrong = (found - self.request_ids) + (self.request_ids - found)
        return wrong.total()

    def count_undelivered(self) -> int:
        """Count the reports of files without their mail or their notice; batches have neither."""
        query = "SELECT count(*) FROM audits WHERE status = 'done' AND NOT EXISTS (SELECT FROM"
        mails = "mails WHERE status = 'sent' AND parameters->>'audit_id' = audits.id)"
        notices = (
            "notice_deliveries WHERE status = 'delivered' AND payload->>'audit_id' = audits.id)"
        )
        only = " AND source = 'upload'"
        return self.count(f"{query} {mails}{only}") + self.count(f"{query} {notices}{only}")


class _StormySystem(System):
    """A service whose processes reach the database through one that can be silent."""

    @cached_property
    def _between(self) -> tuple[SilentPostgres, str]:
        return self._stack.enter_context(running_silent_postgres(self.servers.database_url))

    @cached_property
    def _stack(self) -> ExitStack:
        return ExitStack()

    @property
    def database_url(self) -> str:
        return self._between[1]

    @contextmanager
    def silent_database(self) -> Iterator[None]:
        self._between[0].is_silent = True
        yield
        self._between[0].is_silent = False

    def calm(self) -> None:
        self._stack.close()


@contextmanager
def _system(storage: str) -> Iterator[tuple[System, list[tuple[str, Fault]]]]:
    """Start a service whose storage, and whatever else it writes, is on disks that can break."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tallystick-storm-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o711)
        stack.enter_context(limited_disk(folder, 1 << 30))
        settings = dict(SETTINGS)
        if storage == "disk":
            blobs = stack.enter_context(limited_disk(folder / "blobs", 256 << 20))
            settings["STORAGE_URL"] = blobs.as_uri()
            faults: list[tuple[str, Fault]] = [
                ("full", partial(full, blobs)),
                ("read-only", partial(read_only, blobs)),
                ("full, with PostgreSQL's", partial(full, folder)),
            ]
        else:
            bucket = stack.enter_context(running_s3())
            settings |= {"STORAGE_URL": "s3://bucket/storm", **bucket.environment}
            for name, value in bucket.environment.items():
                stack.enter_context(_set(os.environ, name, value))
            faults = [(name, partial(_set_state, bucket, name)) for name in FAULTS]
        system = _StormySystem(folder / "service", mail_workers=1, **settings)
        stack.callback(system.calm)
        stack.enter_context(system)
        system.start_process("notices-0")
        faults.append(("no Redis", partial(_without_redis, system)))
        faults.append(("a database that crashes", partial(_crashing_database, system)))
        faults.append(("a silent database", system.silent_database))
        yield system, faults


@contextmanager
def _set(values: Any, name: str, value: str) -> Iterator[None]:
    values[name] = value
    yield
    del values[name]


@contextmanager
def _set_state(bucket: Any, state: str) -> Iterator[None]:
    bucket.state = state
    yield
    bucket.state = WORKS


@contextmanager
def _without_redis(system: System) -> Iterator[None]:
    system.servers.stop_redis()
    yield
    system.servers.start_redis()


@contextmanager
def _crashing_database(system: System) -> Iterator[None]:
    ended = threading.Event()

    def crash() -> None:
        while not ended.is_set():
            system.servers.crash_postgres()
            ended.wait(1.0)

    thread = threading.Thread(target=crash)
    thread.start()
    yield
    ended.set()
    thread.join()


@in_full_only
@pytest.mark.parametrize("storage", ["disk", "bucket"])
def test_a_storm_of_outages_costs_nothing_but_time(storage: str, note: Note, share: float) -> None:
    with running_receiver() as receiver, _system(storage) as (system, faults):
        storm = Storm(system, receiver)
        storm.blow(faults, MINUTES / 2 * 60 * share)
        try:
            storm.wait_for_all()
        finally:
            sys.stdout.write(_describe(storage, storm, faults))

        sent = storm.accepted["batch"] | storm.accepted["file"]
        name = f"52 a storm, {storage}:"
        note(f"{name} accepted batches and files done once", len(sent), storm.count_lost_audits())
        calls = storm.request_ids.total()
        note(f"{name} accepted calls in the account once", calls, storm.count_wrong_calls())
        files, audits = len(storm.accepted["file"]), storm.count("SELECT count(*) FROM audits")
        failed = storm.count("SELECT count(*) FROM audits WHERE error IS NOT NULL")
        note(f"{name} audits that a person would rerun", audits, failed)
        failed = storm.count("SELECT count(*) FROM mails WHERE status = 'failed'")
        failed += storm.count("SELECT count(*) FROM notice_deliveries WHERE status = 'failed'")
        note(f"{name} reports mailed and noticed", files, failed + storm.count_undelivered())
        # Else no fault met an audit, and none could have failed.
        assert storm.count("SELECT sum(starts_before_rerun) FROM audits") >= BACKLOG
        downloads = len(storm.accepted["download"])
        assert downloads
        strange = sum(
            number
            for (kind, status), number in storm.statuses.items()
            if status not in {*ACCEPTED, 202, 503}
        )
        tries = storm.statuses.total()
        note(f"{name} answers of 200, 201, 202 and 503 only", tries, strange)
        slow = sum(seconds > LONGEST_SECONDS for seconds in storm.slowest.values())
        note(f"53 {name[3:]} no answer after {LONGEST_SECONDS:.0f} s", tries, slow)
        late = sum(seconds > RECOVERY_SECONDS for seconds in storm.recoveries.values())
        note(f"53 {name[3:]} recovery within {RECOVERY_SECONDS:.0f} s", storm.faults, late)


def _describe(storage: str, storm: Storm, faults: Sequence[tuple[str, Fault]]) -> str:
    """Return what `note` doesn't show, also for when a promise was broken."""
    rows = storm.system.rows
    attempts = "sum(starts), sum(starts_before_rerun), max(starts - starts_before_rerun)"
    logs = storm.system.folder.glob("*.log")
    events = Counter[str]()
    for log in logs:
        events.update(_EVENT.findall(log.read_text(errors="replace")))
    found = {
        "storm": f"{storage}, {MINUTES / 2:.1f} minutes, {', '.join(name for name, _ in faults)}",
        "accepted": {kind: len(ids) for kind, ids in storm.accepted.items()},
        "statuses": dict(sorted(storm.statuses.items())),
        "slowest": {kind: round(seconds, 1) for kind, seconds in storm.slowest.items()},
        "recovery": {name: round(seconds, 1) for name, seconds in storm.recoveries.items()},
        "audits": rows("SELECT source, status, count(*) FROM audits GROUP BY 1, 2"),
        "attempts, uncounted, most counted": rows(f"SELECT {attempts} FROM audits"),
        "errors": rows("SELECT error, count(*) FROM audits WHERE error IS NOT NULL GROUP BY 1"),
        "mails": rows("SELECT status, error, count(*) FROM mails GROUP BY 1, 2"),
        "notices": rows("SELECT status, error, count(*) FROM notice_deliveries GROUP BY 1, 2"),
        "logged": dict(events.most_common(25)),
    }
    return "\n".join(["", *(f"{name}: {value}" for name, value in found.items()), ""])
