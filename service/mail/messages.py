"""What each kind of mail says: a subject, and templates for its text and its HTML part."""

from collections.abc import Callable, Mapping
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from service.config import Config
from service.core import tokens
from service.mail.digest import write_digest
from service.mail.report_ready import write_report_ready
from service.models.mail.outbox import Dispatch
from service.models.mail.report_mails import REPORT_DIGEST, REPORT_READY

SIGN_IN: Final = "sign_in"
_TEMPLATES: Final = Path(__file__).parents[2] / "templates" / "mail"
_MAX_SUBJECT_LENGTH: Final = 150
_LONGEST_LINE: Final = 900  # of 998, which mail servers take
_POLICY: Final = policy.SMTP.clone(cte_type="7bit")  # so that any server can pass it on

# A kind's words: the subject, and what its templates print.
Words = tuple[str, dict[str, Any]]


def compose(config: Config, dispatch: Dispatch) -> EmailMessage:
    """The mail, the same at each attempt, so that a mailbox can tell a repetition."""
    subject, words = KINDS[dispatch.kind](config, dispatch.parameters)
    message = EmailMessage(_POLICY)
    message["From"] = _sender(config)
    message["To"] = Address(addr_spec=dispatch.recipient)
    message["Subject"] = _in_header(subject)
    message["Date"] = format_datetime(dispatch.created_at)
    message["Message-ID"] = f"<{dispatch.mail_id}@{_sender(config).domain}>"
    # No robot shall answer: it would answer to nobody.
    message["Auto-Submitted"] = "auto-generated"
    text, html = (_render(f"{dispatch.kind}.{kind}", words) for kind in ("txt", "html"))
    message.set_content(text, cte=_encoding(text))
    message.add_alternative(html, subtype="html", cte=_encoding(html))
    return message


def _encoding(text: str) -> str:
    """Plain where it can be, so that a link can be read in the file of a mail, too."""
    is_plain = text.isascii() and all(len(line) < _LONGEST_LINE for line in text.splitlines())
    return "7bit" if is_plain else "quoted-printable"


def one_line(text: str) -> str:
    """The text without anything that could start a line, in a header or in the mail."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def _in_header(text: str) -> str:
    # What looks like an encoded word would be decoded into the header, line breaks and all.
    return one_line(text).replace("=?", "= ?")[:_MAX_SUBJECT_LENGTH]


def magic_link_url(config: Config, link_id: str) -> str:
    """The address that signs in. It is made from the settings, whatever a request called us."""
    secret, _hash = tokens.derive(tokens.Kind.MAGIC_LINK, config.secret_key, link_id)
    return f"{config.base_url.rstrip('/')}/auth/verify?{urlencode({'token': secret})}"


def _sign_in(config: Config, parameters: Mapping[str, Any]) -> Words:
    words = {
        "url": magic_link_url(config, parameters["link_id"]),
        "minutes": config.magic_link_minutes,
        "site": config.base_url,
    }
    return "Your sign-in link for Tallystick", words


KINDS: Final[dict[str, Callable[[Config, Mapping[str, Any]], Words]]] = {
    SIGN_IN: _sign_in,
    REPORT_READY: write_report_ready,
    REPORT_DIGEST: write_digest,
}


def _sender(config: Config) -> Address:
    name, address = parseaddr(config.mail_from)
    return Address(name, addr_spec=address)


def _render(template: str, words: Mapping[str, Any]) -> str:
    return _environment.get_template(template).render(words)


def _printed(value: Any) -> Any:
    """Whatever a template prints stays on its line: labels are other people's text."""
    return one_line(value) if isinstance(value, str) else value


_environment: Final = Environment(
    loader=FileSystemLoader(_TEMPLATES),
    autoescape=select_autoescape(("html",)),
    undefined=StrictUndefined,
    finalize=_printed,
    trim_blocks=True,
    lstrip_blocks=True,
)
