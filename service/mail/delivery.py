"""Deliver a mail to an SMTP server, or to a folder if none is configured."""

import smtplib
import ssl
from collections.abc import Iterable, Sequence
from contextlib import suppress
from email.message import EmailMessage
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from service.config import Config
from service.core.durable_files import write_private
from service.jobs.sending import FinalError

# For each SMTP command; the job has its own time limit.
_STEP_SECONDS: Final = 10.0
_PORTS: Final = {"smtp": 25, "smtps": 465, "smtp+starttls": 587}


class RefusedError(FinalError):
    """The server permanently rejected the mail's address or content."""


def deliver(config: Config, message: EmailMessage, mail_id: str) -> None:
    """Deliver the mail.

    Raises `RefusedError` if a retry can't help, and `OSError`, the base of all errors of `smtplib`,
    if it can.
    """
    if config.smtp_url:
        server = _connect(config)
        try:
            # `send_message` would reformat the mail and quote lines that begin with "From".
            sender, recipient = message["From"].addresses[0], message["To"].addresses[0]
            options: Sequence[str] = ()
            if not recipient.addr_spec.isascii():  # letters beyond ASCII need RFC 6531
                server.ehlo_or_helo_if_needed()
                if not server.has_extn("smtputf8"):
                    raise RefusedError
                options = ("SMTPUTF8", "BODY=8BITMIME")
            server.sendmail(sender.addr_spec, [recipient.addr_spec], message.as_bytes(), options)
        except smtplib.SMTPRecipientsRefused as error:
            if all(_is_final(code) for code, _reason in error.recipients.values()):
                raise RefusedError from error
            raise
        except smtplib.SMTPDataError as error:
            if _is_final(error.smtp_code):
                raise RefusedError from error
            raise
        finally:
            # The outcome is known, so errors while disconnecting don't matter.
            with suppress(OSError):
                server.quit()
            server.close()
    else:
        # A file that only its owner can read; a retry replaces it.
        folder = Path(config.outbox_folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(folder / mail_file_name(mail_id), message.as_bytes())


def check_server(config: Config) -> None:
    """Connect and sign in to the mail server; raise `OSError` if that fails."""
    server = _connect(config)
    try:
        server.noop()
    finally:
        with suppress(OSError):
            server.quit()
        server.close()


def _connect(config: Config) -> smtplib.SMTP:
    """Connect to the server. The greeting uses the host name from the settings."""
    url, our_name = urlsplit(config.smtp_url), urlsplit(config.base_url).hostname
    host, port = url.hostname or "localhost", url.port or _PORTS[url.scheme]
    tls = ssl.create_default_context()
    server = (
        smtplib.SMTP_SSL(host, port, our_name, timeout=_STEP_SECONDS, context=tls)
        if url.scheme == "smtps"
        else smtplib.SMTP(host, port, our_name, timeout=_STEP_SECONDS)
    )
    try:
        if url.scheme == "smtp+starttls":
            server.starttls(context=tls)
        if url.username:
            server.login(unquote(url.username), unquote(url.password or ""))
    except BaseException:
        server.close()
        raise
    return server


def _is_final(code: int) -> bool:
    return code >= 500


def mail_file_name(mail_id: str) -> str:
    """Return the name of a mail's file in the outbox folder."""
    return f"{mail_id}.eml"


def delete_mail_files(folder: Path, mail_ids: Iterable[str]) -> None:
    """Delete the files of mails whose rows are gone."""
    for mail_id in mail_ids:
        (folder / mail_file_name(mail_id)).unlink(missing_ok=True)
