"""POST /api/v1/audits over real HTTP: what it accepts, stores and costs."""

import gzip
import json
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest
import requests
from sqlalchemy import select
from sqlalchemy.orm import Session

from detectors.formats import read_stored
from service.models import Audit, Credit, IdempotencyKey
from tests.cases import each_case
from tests.detectors.formats.adapters.exports import EXPORTS
from tests.detectors.formats.adapters.source_rows import BATCH, LITELLM, lines
from tests.detectors.formats.test_logs import LOGS
from tests.service.support.live import LiveService
from tests.service.support.scenes import AUDITS
from tests.service.support.traces import traces_of
from tests.service.support.uploads import (
    Person,
    add_person,
    error_in,
    free_credits,
    log_file,
    multipart,
    one_file,
    openai_line,
    post_body,
    upload,
)


@pytest.fixture
def person(live: LiveService) -> Person:
    """Someone with three credits."""
    return add_person(live.sessions, 3)


def _audit(live: LiveService, audit_id: str) -> Audit:
    with live.sessions() as session:
        return session.get_one(Audit, audit_id)


def test_an_upload_is_accepted_and_uses_one_credit(live: LiveService, person: Person) -> None:
    file = log_file(3)
    response = upload(live.url, person, file)
    assert response.status_code == 201
    answer = response.json()
    assert set(answer) == {"audit_id", "replayed", "status_url"}
    assert answer["replayed"] is False
    assert answer["status_url"].endswith(f"/api/v1/audits/{answer['audit_id']}/status")
    assert free_credits(live.sessions, person) == 2
    audit = _audit(live, answer["audit_id"])
    assert (audit.account_id, audit.source, audit.status) == (person.account_id, "upload", "queued")
    assert (audit.records, audit.size_bytes, audit.valid_pct) == (3, len(file), None)
    with live.sessions() as session:
        credit = session.scalars(select(Credit).where(Credit.audit_id == audit.id)).one()
    assert (credit.account_id, credit.claimed_at is not None) == (person.account_id, True)
    # A log without any time is rejected and uses no credit.
    before = live.blob_names()
    message = error_in(upload(live.url, person, log_file(9, created=None)), 422, "validation_error")
    assert "without a time" in message
    assert (free_credits(live.sessions, person), live.blob_names()) == (2, before)


def test_what_is_stored_is_the_reencoding_and_not_the_file(
    live: LiveService, person: Person
) -> None:
    text = json.dumps(openai_line(tag="kept")).replace("{", '{"tag": "DROPPEDx7Qp", ', 1)
    file = f"{text}  \n\n[7]\n".encode()
    audit = _audit(live, upload(live.url, person, file).json()["audit_id"])
    with (live.blobs / audit.blob_key).open("rb") as blob:
        [chunk] = read_stored(blob)
    assert (chunk.columns["tag"], chunk.columns["request_id"]) == (["kept"], ["chatcmpl-1"])
    assert [(row.line, row.reason) for row in chunk.invalid] == [(3, "not a JSON object")]
    assert b"DROPPEDx7Qp" not in (live.blobs / audit.blob_key).read_bytes()


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_every_format_is_accepted_compressed_or_not(live: LiveService, log: Path) -> None:
    person, pack = add_person(live.sessions, 1), gzip.compress if LOGS.index(log) % 2 else bytes
    response = upload(live.url, person, pack(log.read_bytes()))
    assert response.status_code == 201, response.text
    expected = log.with_name(f"{log.stem}.expected.jsonl").read_text().splitlines()
    stored = (live.blobs / _audit(live, response.json()["audit_id"]).blob_key).read_text()
    assert sorted(stored.splitlines()) == sorted(expected)


def _zip_of(*logs: bytes) -> bytes:
    """Logs in a ZIP archive, stored and not compressed."""
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        for number, log in enumerate(logs):
            archive.writestr(f"customer-x7Qp-{number}.jsonl", log)
    return file.getvalue()


def test_a_zip_of_one_log_is_accepted_and_other_archives_are_rejected_by_name(
    live: LiveService, person: Person
) -> None:
    response = upload(live.url, person, _zip_of(log_file(3)))
    assert response.status_code == 201, response.text
    assert _audit(live, response.json()["audit_id"]).records == 3
    # An archive is rejected by name and uses no credit.
    before = live.blob_names()
    for file, name in (
        (_zip_of(log_file(), log_file()), "ZIP archive with several files"),
        (_zip_of(), "empty ZIP archive"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\n" + log_file(), "Excel workbook"),
    ):
        message = error_in(upload(live.url, person, file), 422, "validation_error")
        assert name in message
        assert "x7Qp" not in message
    assert (free_credits(live.sessions, person), live.blob_names()) == (2, before)


def test_a_file_name_is_kept_nowhere(live: LiveService, person: Person, redis_url: str) -> None:
    body = one_file(log_file(), name="../../etc/NAMEx7Qp")
    assert post_body(live.url, person, body).status_code == 201
    assert traces_of(live, redis_url, "NAMEx7Qp") == []


def test_a_body_without_a_length_is_accepted(live: LiveService, person: Person) -> None:
    body = one_file(log_file(2_000))
    pieces = (body[start : start + 1_000] for start in range(0, len(body), 1_000))
    response = post_body(live.url, person, pieces)
    assert response.status_code == 201, response.text
    assert _audit(live, response.json()["audit_id"]).records == 2_000


# Who may


def test_the_users_email_admits_nobody_and_rejects_a_mistake(
    live: LiveService, person: Person
) -> None:
    other = {"x-user-email": "other@example.org"}
    error_in(upload(live.url, person, log_file(), **other), 401, "unauthorized")
    signed_out = Person("", "", {"x-user-email": person.email})
    error_in(upload(live.url, signed_out, log_file()), 401, "unauthorized")
    own = {"x-user-email": person.email.upper()}
    assert upload(live.url, person, log_file(), **own).status_code == 201


# Paying


def test_an_upload_without_a_credit_gets_payment_links(live: LiveService) -> None:
    poor = add_person(live.sessions)
    before = live.blob_names()
    response = upload(live.url, poor, log_file())
    assert "credit" in error_in(response, 402, "payment_required")
    (link,) = response.json()["error"]["payment_links"]
    assert link["provider"] == "billing"
    assert link["url"].endswith("/billing")
    assert live.blob_names() == before


# Idempotency


def test_a_retry_gives_the_same_audit_and_uses_no_credit(live: LiveService) -> None:
    person = add_person(live.sessions, 1)
    first = upload(live.url, person, log_file(), key="a key")
    assert first.status_code == 201
    for _ in range(2):
        retry = upload(live.url, person, log_file(), key="a key")
        assert retry.status_code == 200
        assert retry.json() == {**first.json(), "replayed": True}
    with live.sessions() as session:
        owned = IdempotencyKey.account_id == person.account_id
        assert len(session.scalars(select(IdempotencyKey).where(owned)).all()) == 1
    # The keys of two accounts are apart.
    other = upload(live.url, add_person(live.sessions, 1), log_file(), key="a key")
    assert other.json()["audit_id"] != first.json()["audit_id"]


def test_a_key_that_was_used_for_another_file_is_rejected(
    live: LiveService, person: Person
) -> None:
    assert upload(live.url, person, log_file(1), key="k").status_code == 201
    before = live.blob_names()
    for other in (log_file(2), gzip.compress(log_file(1)), b"no log"):
        response = upload(live.url, person, other, key="k")
        assert "a different file" in error_in(response, 422, "validation_error")
    assert (free_credits(live.sessions, person), live.blob_names()) == (2, before)
    # A key whose upload was rejected is still free.
    error_in(upload(live.url, person, b"no log", key="free"), 422, "validation_error")
    assert upload(live.url, person, log_file(), key="free").status_code == 201


@each_case("key", ["", "x" * 256, "caf\u00e9"])
def test_a_malformed_key_is_a_bad_request(live: LiveService, person: Person, key: str) -> None:
    error_in(upload(live.url, person, log_file(), key=key), 400, "bad_request")


# The body


@each_case(
    ("body", "content_type", "status"),
    [
        (log_file(), "application/json", 415),
        (log_file(), "text/csv", 415),
        (b"file=x", "application/x-www-form-urlencoded", 415),
        (one_file(log_file()), "multipart/mixed; boundary=x7Qp", 415),
        (one_file(log_file()), "multipart/form-data", 400),
        (one_file(log_file()), "multipart/form-data; boundary=", 400),
        (one_file(log_file()), f"multipart/form-data; boundary={'x' * 71}", 400),
        (one_file(log_file()), "multipart/form-data; boundary=other", 400),
        (one_file(log_file())[:-10], None, 400),
        (one_file(log_file())[:60], None, 400),
        (b"", None, 400),
        (b"no multipart at all", None, 400),
        (b"x" * 2_000_000, None, 400),
        (one_file(log_file()) + b"x" * 2_000_000, None, 400),
        (b"--x7Qp\r\n" + b"X: y\r\n" * 400_000, None, 400),
        (b"--x7Qp\r\nX: \xff\xfe\r\n\r\nx\r\n--x7Qp--\r\n", None, 400),
        (multipart([]), None, 422),
        (multipart([('name="other"; filename="x"', log_file())]), None, 422),
        (multipart([("filename=x", log_file())]), None, 422),
        (multipart([('name="file"', log_file())]), None, 422),
        (multipart([('name="FILE"; filename="x"', log_file())]), None, 422),
        (multipart([('name="file"; filename="x"', log_file())] * 2), None, 422),
        (multipart([('name="file"; filename="x"', log_file()), ('name="note"', b"hi")]), None, 422),
        (multipart([('name="note"', b"hi"), ('name="file"; filename="x"', log_file())]), None, 422),
        (one_file(b""), None, 422),
    ],
)
def test_a_body_that_holds_not_exactly_one_file_is_rejected(
    live: LiveService, body: bytes, content_type: str | None, status: int
) -> None:
    person, before = add_person(live.sessions, 1), live.blob_names()
    kind = {"content_type": content_type} if content_type else {}
    codes = {400: "bad_request", 415: "unsupported_media_type", 422: "validation_error"}
    error_in(post_body(live.url, person, body, **kind), status, codes[status])
    assert (free_credits(live.sessions, person), live.blob_names()) == (1, before)


def test_fields_beyond_the_contract_are_named_with_their_lines(
    live: LiveService, person: Person
) -> None:
    file = log_file(2) + json.dumps(openai_line(messages=[{"content": "x"}], prompt="x")).encode()
    message = error_in(upload(live.url, person, file), 422, "validation_error")
    assert message == (
        "Contains fields we never accept (messages, prompt) on line 3: content is never accepted. "
        "Remove them, or run `tallystick scrub`."
    )
    # A file of an unknown format gets the expected formats.
    message = error_in(upload(live.url, person, b"hello,world\n1,2\n"), 422, "validation_error")
    for word in ("OpenAI", "Anthropic", "CSV"):
        assert word in message
    assert "hello" not in message
    # An encoded body is rejected.
    body = gzip.compress(one_file(log_file()))
    headers = {"Content-Encoding": "gzip"}
    error_in(post_body(live.url, person, body, **headers), 415, "unsupported_media_type")


# Gates


def test_each_gate_comes_before_the_next(live: LiveService) -> None:
    """Session, size, credit, then the body's form."""
    poor, huge = add_person(live.sessions), {"Content-Length": str(300 << 20)}
    signed_out = Person("", "", {})
    for person, headers, status in ((signed_out, huge, 401), (poor, huge, 413), (poor, {}, 402)):
        request = requests.Request(
            "POST",
            f"{live.url}{AUDITS}",
            data=b"no multipart",
            headers={**person.headers, "Content-Type": "text/plain"},
        ).prepare()
        request.headers.update(headers)
        with requests.Session() as session:
            assert session.send(request, timeout=60).status_code == status


def test_a_known_key_is_asked_for_its_file_even_without_a_credit(live: LiveService) -> None:
    person = add_person(live.sessions, 1)
    assert upload(live.url, person, log_file(), key="k").status_code == 201
    response = post_body(live.url, person, b"x", "text/plain", **{"Idempotency-Key": "k"})
    error_in(response, 415, "unsupported_media_type")


@pytest.mark.stress
def test_what_a_rolled_back_upload_leaves_is_nothing(live: LiveService, person: Person) -> None:
    """The account's row is locked away, so that the transaction cannot end in time.

    By default, one that is killed leaves nothing: `test_uploads_at_once.py`.
    """
    before = live.blob_names()
    with Session(live.engine) as holder:
        holder.execute(
            select(Credit).where(Credit.account_id == person.account_id).with_for_update()
        )
        response = upload(live.url, person, log_file())
        error_in(response, 503, "unavailable")
        assert int(response.headers["Retry-After"]) > 0
    assert (free_credits(live.sessions, person), live.blob_names()) == (3, before)


# Labels


LABEL = ("name=label", b"  October,\tEU  ")
FILE = ('name="file"; filename="secret.jsonl"', log_file())


@each_case("parts", [[LABEL, FILE], [FILE, LABEL]])
def test_a_label_is_kept_as_typed_on_one_line(
    live: LiveService, person: Person, parts: list[tuple[str, bytes]]
) -> None:
    response = post_body(live.url, person, multipart(parts))
    assert response.status_code == 201
    assert set(response.json()) == {"audit_id", "replayed", "status_url"}
    assert _audit(live, response.json()["audit_id"]).label == "October, EU"


def test_the_name_of_the_file_is_no_label(live: LiveService, person: Person) -> None:
    unlabeled = one_file(log_file(2), name="secret.jsonl")
    for body in (unlabeled, multipart([("name=label", b"  "), FILE])):
        answer = post_body(live.url, person, body).json()
        assert _audit(live, answer["audit_id"]).label is None


@each_case(
    "parts",
    [
        [("name=label", b"x" * 81), FILE],
        [FILE, ("name=label", "é".encode() * 81)],
        [FILE, ("name=label", b"x" * 2000)],
        [FILE, LABEL, LABEL],
        [FILE, ('name="label"; filename="x"', b"x")],
    ],
)
def test_an_upload_with_an_unusable_label_is_free(
    live: LiveService, person: Person, parts: list[tuple[str, bytes]]
) -> None:
    error_in(post_body(live.url, person, multipart(parts)), 422, "validation_error")
    assert free_credits(live.sessions, person) == 3


def test_files_with_the_same_records_are_recognized_packed_or_not(
    live: LiveService, person: Person
) -> None:
    files = (log_file(2, tag="one"), gzip.compress(log_file(2, tag="one")), log_file(2, tag="two"))
    answers = [upload(live.url, person, file).json() for file in files]
    first, packed, other = (_audit(live, answer["audit_id"]).content_hash for answer in answers)
    assert first == packed != other


def test_an_export_of_another_tool_is_stored_as_records(live: LiveService, person: Person) -> None:
    another = LITELLM | {"request_id": "chatcmpl-2"}
    response = upload(live.url, person, lines(another, BATCH))
    assert response.status_code == 201
    with (live.blobs / _audit(live, response.json()["audit_id"]).blob_key).open("rb") as blob:
        [chunk] = read_stored(blob)
    assert chunk.columns["cached_tokens"] == [30, 30]
    assert sorted(chunk.columns["service_tier"]) == ["", "batch"]


def test_exports_with_text_or_sums_are_rejected_in_a_sentence(
    live: LiveService, redis_url: str, person: Person
) -> None:
    for name in ("litellm with text", "codex with text", "openrouter by day"):
        response = upload(live.url, person, EXPORTS[name].file)
        assert str(EXPORTS[name].expected) in error_in(response, 422, "validation_error")
        assert "CANARY" not in response.text
    assert free_credits(live.sessions, person) == 3
    assert traces_of(live, redis_url, "CANARY") == []
