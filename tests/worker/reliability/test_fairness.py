"""One account's queue delays no other account's audit.

tests/worker/jobs/test_queue_order.py has the same without processes: what each claim takes.
"""

import pytest

from tests.worker.support.promises import Note
from tests.worker.support.system import System
from tests.worker.support.traffic import batch

# What both workers may have claimed before they see the other account's audit.
CLAIMED_BEFORE = 2 * 20
BATCHES = 1_000


@pytest.mark.stress
def test_one_accounts_queue_delays_no_other_account(system: System, note: Note) -> None:
    """Sixty batches once delayed another account's by 91 seconds."""
    other = system.new_key("other@example.com")
    with system.without_workers():
        audit_ids = system.ingest_at_once(BATCHES, records=5)
        response = system.post(batch(1), key=other)
        assert response.status_code == 201
    late = response.json()["audit_id"]
    system.wait_done([late], 60)
    query = (
        "SELECT count(*) FROM audits"
        " WHERE started_at < (SELECT started_at FROM audits WHERE id = :id)"
    )
    earlier = system.rows(query, id=late)[0][0]
    note("38 one account's queue delays no other", len(audit_ids), earlier > CLAIMED_BEFORE)
    system.wait_done(audit_ids, 120)
    system.execute("DELETE FROM accounts WHERE email = 'other@example.com'")
