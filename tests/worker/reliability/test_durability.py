"""A 2xx is durable: accepted data survives crashes of the database and the web process."""

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count, pairwise

import requests

from service.models.audits.idempotency import hash_key
from tests.detectors.formats.stored import decode_records
from tests.worker.support.promises import Note, at_a_fortieth, scaled
from tests.worker.support.system import System
from tests.worker.support.traffic import batch

RECORDS = 10
RECOVERY_SECONDS = 10.0
KEYS = "SELECT key_hash, audit_id FROM idempotency_keys"
BROKEN_CONNECTION = 0
EXPECTED = {200, 201, 503, BROKEN_CONNECTION}


@dataclass
class Clients:
    """Clients that send batches, each until it is accepted, and remember every answer."""

    system: System
    accepted: dict[str, str] = field(default_factory=dict)
    answers: Counter[int] = field(default_factory=Counter)
    accepted_at: list[float] = field(default_factory=list)

    def send(self, client: int, least: int, broken: threading.Event) -> None:
        """Send at least so many batches, and some more once everything has been broken."""
        for number in count():
            if number >= least and broken.is_set():
                return
            self._send_until_accepted(f"{client}-{number}", batch(RECORDS, number))

    def _send_until_accepted(self, key: str, body: bytes) -> None:
        while True:
            status, audit_id = self._try(key, body)
            self.answers[status] += 1
            if status in (200, 201):
                self.accepted[key] = audit_id
                self.accepted_at.append(time.monotonic())
                return
            time.sleep(0.05)

    def slowest_recovery(self, crashed_at: list[float]) -> float:
        """Return the longest time without an accepted batch, from the last crash in it."""
        accepted = sorted(self.accepted_at)
        return max(
            after - max([before, *(moment for moment in crashed_at if moment < after)])
            for before, after in pairwise(accepted)
        )

    def _try(self, key: str, body: bytes) -> tuple[int, str]:
        try:
            response = self.system.post(body, idempotency_key=key)
            return response.status_code, response.json().get("audit_id", "")
        except requests.RequestException:
            return BROKEN_CONNECTION, ""


@at_a_fortieth
def test_every_accepted_batch_is_stored_once(web_only: System, note: Note, share: float) -> None:
    clients, least = scaled(50, share), 200 if share == 1 else 40
    crowd, broken = Clients(web_only), threading.Event()
    crashes = ["database"] * scaled(5, share) + ["web"] * scaled(10, share)
    pause_seconds = 1.0 if share == 1 else 0.3
    crashed_at: list[float] = []
    settings = (web_only, crashes, crashed_at, pause_seconds, broken)
    breaker = threading.Thread(target=_crash, args=settings)
    breaker.start()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(lambda client: crowd.send(client, least, broken), range(clients)))
    breaker.join()
    assert not crashes

    batches = len(crowd.accepted)
    assert batches >= clients * least
    stored = {bytes(key_hash): audit_id for key_hash, audit_id in web_only.rows(KEYS)}
    lost = sum(stored.get(hash_key(key)) != audit_id for key, audit_id in crowd.accepted.items())
    lost += sum(not _is_whole(web_only, audit_id) for audit_id in crowd.accepted.values())
    doubled = web_only.rows("SELECT count(*) FROM audits")[0][0] - batches
    strange = sum(
        count for status, count in crowd.answers.items() if status not in {0, 200, 201, 503}
    )
    # Other tests run beside the short one.
    slow = share == 1 and crowd.slowest_recovery(crashed_at) > RECOVERY_SECONDS
    note("1 a 2xx is durable", batches, lost + abs(doubled) + strange + slow)


def _crash(
    system: System,
    crashes: list[str],
    crashed_at: list[float],
    pause_seconds: float,
    broken: threading.Event,
) -> None:
    random.Random(1).shuffle(crashes)
    try:
        while crashes:
            time.sleep(pause_seconds)
            crashed_at.append(time.monotonic())
            if crashes[-1] == "web":
                system.kill_web()
            else:
                system.servers.crash_postgres()
            crashes.pop()
    finally:
        broken.set()


def _is_whole(system: System, audit_id: str) -> bool:
    blob = system.blobs / "raw" / f"{audit_id}.jsonl"
    return blob.exists() and len(decode_records(blob.read_bytes())) == RECORDS
