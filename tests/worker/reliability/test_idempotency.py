"""One key creates one audit, however many requests send it at once."""

from concurrent.futures import ThreadPoolExecutor

from tests.worker.support.promises import Note, always_in_full
from tests.worker.support.system import System
from tests.worker.support.traffic import batch

CONCURRENT = 100


@always_in_full
def test_100_concurrent_requests_with_one_key_make_one_audit(
    web_only: System, note: Note, occasion: str
) -> None:
    with ThreadPoolExecutor(CONCURRENT) as pool:
        responses = list(
            pool.map(lambda _: web_only.post(batch(5), idempotency_key="same"), range(CONCURRENT))
        )
    bodies = [response.json() for response in responses]
    audit_ids = {body.get("audit_id") for body in bodies}
    (audit_id,) = audit_ids
    statuses = sorted(response.status_code for response in responses)
    losses = sum(status != 200 for status in statuses) - 1
    losses += web_only.rows("SELECT count(*) FROM audits")[0][0] - 1
    losses += len(list((web_only.blobs / "raw").iterdir())) - 1
    assert statuses.count(201) == 1
    assert {body["replayed"] for body in bodies} == {True, False}
    assert web_only.post(batch(9), idempotency_key="same").json() == {
        "audit_id": audit_id,
        "replayed": True,
    }
    note("8 one key, one audit", CONCURRENT, losses)


def test_two_tenants_may_use_the_same_key(web_only: System) -> None:
    other = web_only.new_key("second@example.com")
    mine = web_only.post(batch(5), idempotency_key="shared")
    theirs = web_only.post(batch(5), key=other, idempotency_key="shared")
    assert (mine.status_code, theirs.status_code) == (201, 201)
    assert mine.json()["audit_id"] != theirs.json()["audit_id"]
    again = web_only.post(batch(5), key=other, idempotency_key="shared")
    assert again.json() == {"audit_id": theirs.json()["audit_id"], "replayed": True}
