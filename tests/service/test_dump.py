"""A dump of the whole database holds no secret that was ever shown to anybody."""

import os
import subprocess

import pytest
import requests
from sqlalchemy import text

from service.embedded.binaries import find_binaries
from tests.service.live import LiveService
from tests.service.oauth_flow import (
    AUTHORIZE,
    TOKEN,
    add_application,
    answer_of,
    consent_live,
    email_of,
)
from tests.worker.promises import Note, always_in_full

PG_DUMP = find_binaries().postgres / "bin" / "pg_dump"


@always_in_full
@pytest.mark.usefixtures("occasion")
def test_no_secret_is_in_a_dump(live: LiveService, note: Note) -> None:
    tenant = live.add_tenant()
    cookie = live.sign_in(email_of(live.sessions, tenant.account_id))
    application = add_application(live.sessions, tenant.account_id).with_fresh_verifier()
    address = requests.Request("GET", live.url + AUTHORIZE, params=application.asks()).prepare().url
    assert address is not None
    codes = [answer_of(consent_live(live.url, address, cookie))["code"] for _ in range(2)]
    redeemed = requests.post(live.url + TOKEN, data=application.redeems(codes[0]), timeout=10)
    secrets = [
        *(tenant.key, tenant.token, application.secret, application.verifier, *codes),
        redeemed.json()["access_token"],
    ]
    dump = _dump(live)
    assert application.client_id in dump, "this is a dump of that database"
    lost = sum(secret[8:] in dump or secret[3:35].encode().hex() in dump for secret in secrets)
    note("secrets of every kind are absent from a database dump", len(secrets), lost)


def _dump(live: LiveService) -> str:
    """What pg_dump writes; where the binaries lack it, every row of every table as text."""
    if PG_DUMP.exists():
        url = live.engine.url.set(drivername="postgresql")
        command = [str(PG_DUMP), "--inserts", url.render_as_string(hide_password=False)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
        return ran.stdout
    with live.engine.connect() as connection:
        tables = connection.scalars(
            text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        ).all()
        rows = [
            row
            for table in tables
            for row in connection.scalars(text(f'SELECT row::text FROM "{table}" AS row'))
        ]
    return "\n".join(rows)
