"""A customer's whole journey through all processes: from a sign-in link to a rerun."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

import detectors
from tests.detectors.reference import logs
from tests.detectors.reference.traffic import draw_log
from tests.service.payments import stripe_events
from tests.service.payments.providers import SETTINGS
from tests.service.support.scenes import ADMIN_TOKEN, AUDITS
from tests.service.support.uploads import Person, upload
from tests.smtp_sink import Sink
from tests.worker.conftest import SHORT, started_system
from tests.worker.support.mailing import BASE_URL, get, new_address, post, sign_in
from tests.worker.support.system import System
from tests.worker.support.waiting import wait_until

PROVIDERS = ("STRIPE", "PADDLE")
LOG = logs.as_chat_completions(draw_log(3)) + b"no JSON\n"


@pytest.fixture(scope="module")
def whole_system(sink: Sink) -> Iterator[System]:
    """Every process, a mail server, a payment provider, an administrator."""
    settings = {name.upper(): value for name, value in SETTINGS.items()}
    settings |= {f"{name}_CREDIT_LINK": "https://buy.example/audit" for name in PROVIDERS}
    settings |= {"SMTP_URL": sink.url, "BASE_URL": BASE_URL, "ADMIN_TOKEN": ADMIN_TOKEN, **SHORT}
    with started_system(workers=1, mail_workers=1, **settings) as system:
        yield system


@pytest.mark.stress
def test_a_whole_life(whole_system: System, sink: Sink) -> None:
    """By default, each step has a test of its own: signing in (`test_magic_links.py`), paying
    (`test_webhooks.py`), an upload (`test_upload_to_report.py`), reruns (`test_reruns.py`).
    """
    system, email = whole_system, new_address()
    person = Person("", email, sign_in(system, sink, email))

    account_id = _find_payment_reference(system, person)
    _pay(system, account_id)

    audit_id, other_id = _queue_two(system, person)
    assert _find_payment_reference(system, person) == account_id
    report = _finish(system, person, audit_id)
    assert report == detectors.audit(BytesIO(LOG)).to_json()
    assert _finish(system, person, other_id) == report

    _act(system, audit_id, "rerun")
    assert _finish(system, person, audit_id) == report
    _act(system, audit_id, "purge")
    assert not list(system.blobs.glob(f"raw/{audit_id}*"))
    _act(system, audit_id, "rerun")
    assert _finish(system, person, audit_id) == report
    acts = system.rows("SELECT act FROM admin_acts WHERE target = :id ORDER BY id", id=audit_id)
    assert [act for (act,) in acts] == ["rerun", "purge", "rerun"]


def _find_payment_reference(system: System, person: Person) -> str:
    """Upload without a credit; return the reference in the payment link of the response."""
    refused = upload(system.base_url, person, LOG)
    assert refused.status_code == 402, refused.text
    links = {link["provider"]: link["url"] for link in refused.json()["error"]["payment_links"]}
    assert set(links) == {"stripe", "paddle"}
    [reference] = parse_qs(urlsplit(links["stripe"]).query)["client_reference_id"]
    return str(reference)


def _pay(system: System, account_id: str) -> None:
    """Two payments, one of them sent twice."""
    paid = [stripe_events.checkout(client_reference_id=account_id) for _ in range(2)]
    for document in (*paid, paid[0]):
        body, headers = stripe_events.signed(document)
        assert post(system, stripe_events.PATH, headers, data=body).status_code == 200


def _queue_two(system: System, person: Person) -> tuple[str, str]:
    """Two uploads while no worker runs: the second one's credit is the last."""
    with system.without_workers():
        first, second = (_accepted(upload(system.base_url, person, LOG)) for _ in range(2))
        places = [_status(system, person, audit_id) for audit_id in (first, second)]
        assert places == [{"status": "queued", "queue_position": place} for place in (0, 1)]
        system.delay_audits(1.0)
    seen = wait_until(lambda: _processing(system, person, first), 20)
    assert seen["status"] == "processing"
    return first, second


def _accepted(answer: requests.Response) -> str:
    assert answer.status_code == 201, answer.text
    return str(answer.json()["audit_id"])


def _status(system: System, person: Person, audit_id: str) -> dict[str, Any]:
    answer = get(system, f"{AUDITS}/{audit_id}/status", **person.headers)
    assert answer.status_code == 200, answer.text
    status: dict[str, Any] = answer.json()
    assert status.pop("audit_id") == audit_id
    return status


def _processing(system: System, person: Person, audit_id: str) -> dict[str, Any] | None:
    status = _status(system, person, audit_id)
    return status if status["status"] == "processing" and "valid_pct" in status else None


def _finish(system: System, person: Person, audit_id: str) -> bytes:
    """The report's bytes, once the audit is done."""
    (system.control / "delay").unlink(missing_ok=True)
    wait_until(lambda: _status(system, person, audit_id)["status"] == "done", 30)
    [(document,)] = system.rows("SELECT document FROM reports WHERE audit_id = :id", id=audit_id)
    return bytes(document)


def _act(system: System, audit_id: str, act: str) -> None:
    path = f"/admin/audits/{audit_id}/{act}"
    answer = post(system, path, {"X-Admin-Token": ADMIN_TOKEN})
    assert answer.status_code == 200, answer.text
