"""The rate limit of reads, and the headers that report it."""

from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy.orm import Session

from service.models import ReadToken
from tests.service.support.scenes import AUDITS, Sessions, Tenant, add_browser, bearer, error_of

READS = ("", "/x", "/x/findings", "/x/report")
LIMIT_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


@pytest.mark.parametrize("ending", [*READS, "/x/status"])
def test_every_route_that_reads_has_its_own_limit(
    share_app: Callable[..., Flask], tenant: Tenant, sessions: Sessions, ending: str
) -> None:
    client = share_app(read_limit_per_minute=2).test_client(use_cookies=False)
    is_status = ending.endswith("status")
    headers = add_browser(sessions, tenant.account_id).headers if is_status else tenant.reads
    answers = [client.get(f"{AUDITS}{ending}", headers=headers) for _ in range(3)]
    found = 404 if ending else 200
    assert [one.status_code for one in answers] == [found, found, 429]
    assert all(name in one.headers for one in answers for name in LIMIT_HEADERS)
    others = [one for one in READS if one != ending]
    statuses = {client.get(f"{AUDITS}{one}", headers=tenant.reads).status_code for one in others}
    assert 429 not in statuses


def test_the_rest_of_the_limit_is_shown_until_it_is_used_up(
    share_app: Callable[..., Flask], tenant: Tenant
) -> None:
    client = share_app(read_limit_per_minute=3).test_client()
    for left in (2, 1, 0):
        headers = client.get(AUDITS, headers=tenant.reads).headers
        assert headers["RateLimit-Limit"] == "3"
        assert headers["RateLimit-Remaining"] == str(left)
        assert 0 < int(headers["RateLimit-Reset"]) <= 60
    refused = client.get(AUDITS, headers=tenant.reads)
    error_of(refused, 429, "rate_limited")
    assert refused.headers["RateLimit-Remaining"] == "0"
    assert int(refused.headers["Retry-After"]) > 0


def test_two_tokens_of_one_account_have_a_limit_each(
    share_app: Callable[..., Flask], tenant: Tenant, db_session: Session
) -> None:
    row, second = ReadToken.minted(tenant.account_id, scopes=("read:audits",))
    db_session.add(row)
    db_session.commit()
    client = share_app(read_limit_per_minute=1).test_client()
    for headers in (tenant.reads, bearer(second)):
        assert client.get(AUDITS, headers=headers).status_code == 200
        assert client.get(AUDITS, headers=headers).status_code == 429
