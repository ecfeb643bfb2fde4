"""Hostile bodies reach no queue, no worker and no blob."""

import json
import random

from tests.service.support.hostile import hostile_bodies
from tests.service.support.scenes import record
from tests.worker.support.promises import Note, in_full_only, scaled
from tests.worker.support.system import System

CANARY = "canary-7f3a9b"


@in_full_only
def test_a_hostile_body_leaves_no_trace(system: System, note: Note, share: float) -> None:
    """By default, `test_ingest_live.py` sends them all to the web."""
    bodies = hostile_bodies()
    chosen = random.Random(3).sample(bodies, scaled(len(bodies), share))
    statuses = [system.post(body).status_code for body in chosen]
    losses = sum(not 400 <= status < 500 for status in statuses)
    losses += sum(system.statuses().values())
    losses += sum(system.redis.llen(f"rq:queue:{name}") for name in ("ingest", "uploads"))
    losses += len(list(system.blobs.glob("*/*")))
    system.wait_done(system.ingest(2), 20)
    note("31 a hostile body leaves no trace", len(chosen), losses)


def test_of_duplicate_keys_the_last_is_audited_and_no_other_is_kept(system: System) -> None:
    good = json.dumps(record(tag="kept"))
    doubled = good.replace('"tag"', f'"tag": "{CANARY}", "tag"')
    response = system.post(f'{{"records": [{doubled}]}}'.encode())
    assert response.status_code == 201
    audit_id = response.json()["audit_id"]
    system.wait_done([audit_id], 20)

    ((document,),) = system.rows("SELECT document FROM reports WHERE audit_id = :id", id=audit_id)
    assert b"kept" in bytes(document)
    kept = [bytes(document), *(path.read_bytes() for path in system.blobs.glob("*/*"))]
    kept += [system.log_of(name).encode() for name in system.process_names()]
    kept += [repr(system.rows("SELECT * FROM audits")).encode()]
    jobs = system.redis.scan_iter("rq:job:*")
    kept += [repr(system.redis.hgetall(job)).encode() for job in jobs]
    assert not any(CANARY.encode() in one for one in kept)
