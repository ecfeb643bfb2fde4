"""Compose each kind of mail: a subject, and templates for its text and HTML parts."""

from collections.abc import Callable, Mapping
from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from detectors.wording.figures import day
from detectors.wording.labels import JOINERS, inert, may_be_link
from service.config import Config
from service.config.resources import RESOURCES
from service.core import tokens
from service.mail.addresses import find_address
from service.mail.digest import write_digest
from service.mail.report_ready import write_report_ready
from service.mail.security_notice import SECURITY_NOTICE, write_notice
from service.mail.spend_notice import write_spend_notice
from service.mail.weekly_digest import write_weekly_digest
from service.models.connections.failures import CONNECTION_FAILING, explain
from service.models.mail.outbox import Mail
from service.models.mail.report_mails import REPORT_DIGEST, REPORT_READY, WEEKLY_DIGEST
from service.models.notices.targets import FAILING, GONE, TARGET_DISABLED, WEBHOOK
from service.models.watching.news import SPEND_NOTICE

SIGN_IN: Final = "sign_in"
_TEMPLATES: Final = RESOURCES / "templates" / "mail"
_MAX_SUBJECT_LENGTH: Final = 150
_LONGEST_LINE: Final = 900  # mail servers accept 998
_POLICY: Final = policy.SMTP.clone(cte_type="7bit")  # so that any server can relay it
_TARGETS: Final = {WEBHOOK: "webhook"}
_DISABLED: Final[Mapping[str, str]] = {
    GONE: "It responded with status 410 (Gone), which means that it doesn't want any more notices.",
    FAILING: "It has accepted no notice for 24 hours.",
}

# The subject, and the variables of the templates.
Words = tuple[str, dict[str, Any]]


def compose(config: Config, mail: Mail) -> EmailMessage:
    """Compose the mail, identical at each attempt, so that mailboxes can detect duplicates."""
    subject, words = KINDS[mail.kind](config, mail.parameters)
    message = EmailMessage(_POLICY.clone(utf8=not mail.recipient.isascii()))
    message["From"] = _sender(config)
    message["To"] = _recipient(mail.recipient)
    message["Subject"] = one_line(subject).replace("=?", "= ?")[:_MAX_SUBJECT_LENGTH]
    message["Date"] = format_datetime(mail.created_at)
    message["Message-ID"] = f"<{mail.id}@{_sender(config).domain}>"
    # Suppress automatic replies.
    message["Auto-Submitted"] = "auto-generated"
    templates = (_environment.get_template(f"{mail.kind}.{kind}") for kind in ("txt", "html"))
    text, html = (template.render(words) for template in templates)
    message.set_content(text, cte=_encoding(text))
    message.add_alternative(html, subtype="html", cte=_encoding(html))
    return message


def _encoding(text: str) -> str:
    """Use a plain encoding if possible, so that links in a mail file are readable."""
    is_plain = text.isascii() and all(len(line) < _LONGEST_LINE for line in text.splitlines())
    return "7bit" if is_plain else "quoted-printable"


def one_line(text: str) -> str:
    """Remove line breaks and control characters; joiners belong to words and emoji."""
    shown = (char if char.isprintable() or char in JOINERS else " " for char in text)
    return " ".join("".join(shown).split())


def magic_link_url(config: Config, link_id: str, key_id: str | None = None) -> str:
    """Return the sign-in URL. Its host comes from the settings, never from a request.

    `key_id` names the key that the link was made with, which may be an earlier one.
    """
    keys = {tokens.key_id(key): key for key in config.secret_keys}
    secret_key = keys.get(key_id or "", config.secret_key)
    secret, _hash = tokens.derive(tokens.Kind.MAGIC_LINK, secret_key, link_id)
    return f"{config.base_url.rstrip('/')}/auth/verify?{urlencode({'token': secret})}"


def _sign_in(config: Config, parameters: Mapping[str, Any]) -> Words:
    words = {
        "url": magic_link_url(config, parameters["link_id"], parameters.get("key_id")),
        "minutes": config.magic_link_minutes,
        "site": config.base_url,
    }
    return "Your sign-in link for Tallystick", words


def _connection_failing(config: Config, parameters: Mapping[str, Any]) -> Words:
    label, provider = parameters["label"], parameters["provider"]
    # The name is somebody's text, of this account or at the provider.
    shown = f"{provider} “{inert(label)}”" if label and not may_be_link(label) else provider
    what, next_step = explain(parameters["reason"])
    words = {
        "name": shown,
        "since": day(datetime.fromisoformat(parameters["since"]).date()),
        "what": what,
        "next_step": next_step,
        "connections_url": f"{config.base_url}/settings/connections",
        "site": config.base_url,
    }
    return f"Your connection to {shown} isn't working", words


def _target_disabled(config: Config, parameters: Mapping[str, Any]) -> Words:
    """Name the host of the target only, because the rest of the URL may be a secret."""
    name, label = _TARGETS.get(parameters["kind"], "Slack channel"), parameters["label"]
    # Someone with a stolen session may have chosen the label.
    name = f"{name} “{inert(label)}”" if label and not may_be_link(label) else name
    words = {
        "name": name,
        "host": parameters["host"],
        "reason": _DISABLED[parameters["reason"]],
        "notices_url": f"{config.base_url}/settings/notices",
        "site": config.base_url,
    }
    return f"We disabled your {name} at {parameters['host']}", words


KINDS: Final[dict[str, Callable[[Config, Mapping[str, Any]], Words]]] = {
    SIGN_IN: _sign_in,
    REPORT_READY: write_report_ready,
    REPORT_DIGEST: write_digest,
    SECURITY_NOTICE: write_notice,
    TARGET_DISABLED: _target_disabled,
    CONNECTION_FAILING: _connection_failing,
    SPEND_NOTICE: write_spend_notice,
    WEEKLY_DIGEST: write_weekly_digest,
}


def _recipient(text: str) -> Address:
    """Return the address; `ValueError` for anything else than one."""
    if text.isascii():
        return Address(addr_spec=text)
    if find_address(text) != text:  # `Address` parses ASCII only
        raise ValueError("not an email address")
    name, _, domain = text.rpartition("@")
    return Address(username=name, domain=domain)


def _sender(config: Config) -> Address:
    name, address = parseaddr(config.mail_from)
    return Address(name, addr_spec=address)


_environment: Final = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=select_autoescape(("html",)),
    undefined=StrictUndefined,
    # Each printed value stays on one line, because labels are other people's text.
    finalize=lambda value: one_line(value) if isinstance(value, str) else value,
    trim_blocks=True,
    lstrip_blocks=True,
)
