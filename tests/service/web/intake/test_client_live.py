"""The capture client against gunicorn: what it concludes from real answers."""

import json
from pathlib import Path

from sqlalchemy import func, select

import tallystick
from service.models import Audit
from tallystick.sending.checking import check
from tests.service.support.live import LiveService
from tests.service.support.scenes import Tenant, batch
from tests.worker.support.waiting import wait_until


def _dsn(live: LiveService, tenant: Tenant) -> str:
    key = tenant.writes["Authorization"].partition(" ")[2]
    return live.url.replace("http://", f"http://{key}@")


def test_the_check_says_whether_a_key_is_accepted(live: LiveService) -> None:
    dsn = _dsn(live, live.add_tenant())
    assert check(dsn).can_send, check(dsn).sentence
    scheme, _, rest = dsn.partition("://")
    key, _, host = rest.partition("@")
    revoked = f"{scheme}://{key[:-1]}{'a' if key[-1] != 'a' else 'b'}@{host}"
    assert "rejected the ingest key" in check(revoked).sentence
    assert "there is no Tallystick service at" in check(f"{dsn}/elsewhere").sentence


def test_a_segment_that_was_sent_before_a_crash_counts_once(
    live: LiveService, tmp_path: Path
) -> None:
    """Its process was killed before it could remove what the service had accepted."""
    tenant = live.add_tenant()
    records = [{**record, "ts": "2026-10-05T09:00:00.000000Z"} for record in batch(20)["records"]]
    lines = [json.dumps(record, separators=(",", ":")) for record in records]
    for _ in range(2):
        (tmp_path / "1.records").write_text("\n".join(lines) + "\n")
        tallystick.init(dsn=_dsn(live, tenant), spool=tmp_path, flush_interval=1)
        try:
            # By this client, or by the last one while it ends.
            wait_until(lambda: not list(tmp_path.iterdir()), 30)
        finally:
            tallystick.close(5)
    with live.sessions() as session:
        mine = select(func.count()).where(Audit.account_id == tenant.account_id)
        assert session.scalar(mine) == 1
