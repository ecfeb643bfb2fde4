"""With a new SECRET_KEY, old signatures stay valid until the old key is removed."""

from collections.abc import Callable

from flask import Flask
from sqlalchemy.orm import Session, sessionmaker

from service.core.tokens import sign_report
from service.models import Audit
from tests.service.support.scenes import SECRET_KEY, Tenant

NEW_KEY = "a-new-secret-key-of-32-characters-or-more"
OLD_KEY = "the-old-secret-key-of-32-characters-or-more"


def _link(sessions: "sessionmaker[Session]", tenant: Tenant, key: str) -> str:
    with sessions() as session:
        audit = Audit(account_id=tenant.account_id, source="ingest", blob_key="raw/x.jsonl")
        session.add(audit)
        session.commit()
        return f"/r/{sign_report(key, audit.id)}"


def test_report_links_outlive_a_rotation_while_the_old_key_is_kept(
    make_app: Callable[..., Flask], sessions: "sessionmaker[Session]", tenant: Tenant
) -> None:
    link = _link(sessions, tenant, OLD_KEY)
    kept = make_app(secret_key=NEW_KEY, secret_key_fallbacks=f"{'x' * 32} {OLD_KEY}")
    assert kept.test_client().get(link).status_code == 200
    assert kept.test_client().get(_link(sessions, tenant, NEW_KEY)).status_code == 200
    dropped = make_app(secret_key=NEW_KEY)
    assert dropped.test_client().get(link).status_code == 404


def test_a_key_that_is_not_kept_signs_nothing(
    make_app: Callable[..., Flask], sessions: "sessionmaker[Session]", tenant: Tenant
) -> None:
    kept = make_app(secret_key=NEW_KEY, secret_key_fallbacks=OLD_KEY)
    assert kept.test_client().get(_link(sessions, tenant, SECRET_KEY)).status_code == 404
