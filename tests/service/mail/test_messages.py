"""The content of mails; labels and addresses can't add to it."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage
from html import unescape
from typing import Any

import pytest

from detectors.wording.headline import sentence
from detectors.wording.labels import inert, may_be_link
from service.config import Config
from service.mail import messages
from service.mail.messages import SIGN_IN, compose, magic_link_url, one_line
from service.mail.report_ready import describe_finding
from service.models.mail.outbox import Mail
from service.models.mail.report_mails import REPORT_READY
from tests.cases import each_case
from tests.service.support.scaled_reports import HOSTILE_LABELS, make_scaled_report

HOSTILE = [
    "x\nBcc: eve@example.org",
    "x\r\nBcc: eve@example.org\r\n\r\n<script>",
    "x\u2028Bcc: eve@example.org",
    "\x00\x1b[31m" + "x" * 100_000,
    "=?utf-8?q?=0ABcc:_eve?=",
    "<b onmouseover=x>&amp;",
]


def copied(mail: Mail, **changed: Any) -> Mail:
    names = ("id", "kind", "recipient", "parameters", "created_at")
    return Mail(**{name: getattr(mail, name) for name in names} | changed)


@pytest.fixture
def mail() -> Mail:
    return Mail(
        id="0123456789abcdef",
        kind=SIGN_IN,
        recipient="ada@example.org",
        parameters={"link_id": "abc"},
        created_at=datetime(2026, 3, 1, 12, 0, tzinfo=UTC),
    )


def _part(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    assert isinstance(part, EmailMessage)
    return str(part.get_content())


def test_it_has_what_a_mailbox_expects_in_each_attempt(config: Config, mail: Mail) -> None:
    message = compose(replace(config, mail_from="Tallystick <hello@tallystick.example>"), mail)
    assert message["From"] == "Tallystick <hello@tallystick.example>"
    assert message["To"] == "ada@example.org"
    assert message["Subject"] == "Your sign-in link for Tallystick"
    assert message["Date"] == "Sun, 01 Mar 2026 12:00:00 +0000"
    assert message["Message-ID"] == "<0123456789abcdef@tallystick.example>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    # Each attempt is the same mail.
    first, again = compose(config, mail), compose(config, copied(mail, attempts=2))
    assert dict(first.items()) | {"Content-Type": ""} == dict(again.items()) | {"Content-Type": ""}
    assert _part(first, "plain") == _part(again, "plain")


def test_both_parts_hold_the_link_to_the_configured_address(config: Config, mail: Mail) -> None:
    own = replace(config, base_url="https://audit.example/")
    url = magic_link_url(own, "abc")
    assert url.startswith("https://audit.example/auth/verify?token=ml_")
    message = compose(own, mail)
    assert url in _part(message, "plain").splitlines()
    assert f'href="{url}"' in _part(message, "html")
    assert "15 minutes" in _part(message, "plain")
    assert message.as_bytes().count(url.encode()) == 3  # to be read without decoding


def test_what_is_not_ascii_or_too_long_for_a_line_is_encoded(config: Config, mail: Mail) -> None:
    for site in ("\xe4" * 10, "x" * 1_500):
        message = compose(replace(config, base_url=f"https://{site}.example"), mail)
        assert site in _part(message, "plain")
        assert message.as_bytes().isascii()
        assert max(map(len, message.as_bytes().splitlines())) < 998


def test_links_differ_by_row_and_by_secret_key(config: Config) -> None:
    other = replace(config, secret_key="another secret key, 32 or more long")
    urls = {magic_link_url(one, row) for one in (config, other) for row in ("abc", "abd")}
    assert len(urls) == 4


@pytest.mark.parametrize("label", HOSTILE)
def test_a_hostile_label_starts_no_header_and_no_markup(
    config: Config, mail: Mail, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = {"url": label, "minutes": 15, "site": label}
    monkeypatch.setitem(messages.KINDS, SIGN_IN, lambda _config, _parameters: (label, words))
    message = compose(config, mail)
    head, _, _body = message.as_bytes().partition(b"\r\n\r\n")
    assert b"\nBcc" not in head
    assert message["Bcc"] is None
    assert len(message["Subject"]) <= 150
    assert _part(message, "plain").splitlines()[2] == one_line(label)
    assert "<b onmouseover" not in _part(message, "html")
    assert "<script>" not in _part(message, "html")


@each_case("label", HOSTILE_LABELS)
def test_a_report_with_hostile_labels_is_inert_and_readable(
    config: Config, mail: Mail, label: str
) -> None:
    report = make_scaled_report(findings=1, labels=(label,))
    fields = {"audit_id": "a", "sentence": sentence(report), "more": 0, "is_last": False}
    parameters = {**fields, "findings": [describe_finding(report.findings[0])]}
    message = compose(config, copied(mail, kind=REPORT_READY, parameters=parameters))
    shown = " ".join(describe_finding(report.findings[0])["where"].split())
    assert may_be_link(label) or shown == " ".join(inert(label).split())
    assert f"   {shown}" in _part(message, "plain").splitlines()
    html = _part(message, "html")
    assert [unescape(one) for one in re.findall(r"<bdi[^>]*>(.*?)</bdi>", html)] == [shown]
    assert not re.search(r"<(script|img|svg)", html)
    assert "\u202e" not in html
    assert max(map(len, message.as_bytes().splitlines())) < 998


def test_the_subject_of_a_report_is_short_and_complete(config: Config, mail: Mail) -> None:
    fields = {"audit_id": "a", "sentence": "You spend $9. Avoidable: $1.", "more": 0}
    parameters: dict[str, object] = {**fields, "findings": []}
    ready = copied(mail, kind=REPORT_READY, parameters=parameters)
    assert compose(config, ready)["Subject"] == "Your cost report is ready: You spend $9"
    parameters["title"] = "$1 of $9 is avoidable"
    assert compose(config, ready)["Subject"] == "Your cost report is ready: $1 of $9 is avoidable"


@each_case(
    "label",
    [
        "Verify now: https://evil.example",
        "http://1.2.3.4",
        "www.evil.example",
        "evil.example/login",
        "see evil.shop now",
        "mailto:eve",
        "eve@evil.example",
        "EVIL.COM",
        "javascript:alert(1)",
    ],
)
def test_a_label_that_looks_like_a_link_is_in_no_mail(label: str) -> None:
    report = make_scaled_report(findings=1, labels=(label,))
    assert describe_finding(report.findings[0])["where"] == (
        "(a label that looks like a link; see the report)"
    )


@each_case("label", ["checkout", "summarize v2", "gpt-4.1 retries", "tier: gold"])
def test_other_labels_of_an_upload_are_in_its_mail(label: str) -> None:
    report = make_scaled_report(findings=1, labels=(label,))
    assert describe_finding(report.findings[0])["where"] == label
    assert describe_finding(report.findings[0], has_labels=False)["where"] == ""


@each_case("recipient", ["a@b.c\nBcc: e@e.e", "a@b.c\r\nX: y", "a@b.c, d@e.f"])
def test_a_recipient_that_is_none_makes_no_mail(config: Config, mail: Mail, recipient: str) -> None:
    with pytest.raises(Exception, match=r".+"):
        compose(config, copied(mail, recipient=recipient))
