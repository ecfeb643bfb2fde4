"""What is reached over a network: the mail server, the public URL, payment providers' events."""

import http.client
import smtplib
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from service.config import Config
from service.core.db import make_probe_engine
from service.mail.delivery import check_server
from service.models.base import utc_now
from service.models.billing.payments import PROVIDERS, PaymentEvent
from service.operations.maintenance.doctor.findings import Area, Finding, days_and_hours

_MAIL: Final = Area("mail")
_WEB: Final = Area("web")
_PAYMENTS: Final = Area("payments")
_CONNECT_SECONDS: Final = 10.0
_EXPIRES_SOON_SECONDS: Final = 14 * 86_400
_JSON: Final = {"Accept": "application/json"}


def check_mail(config: Config) -> Iterator[Finding]:
    """Connect and sign in to the mail server, without sending anything."""
    if not config.smtp_url:
        yield _MAIL.ok(f"mail is written to the folder {Path(config.outbox_folder).name}")
        return
    try:
        check_server(config)
    except smtplib.SMTPAuthenticationError:
        yield _MAIL.fail("the mail server rejects the user or password", "check SMTP_URL")
    except ssl.SSLError:
        yield _MAIL.fail("the mail server's certificate isn't valid", "check the host in SMTP_URL")
    except OSError as error:
        yield _MAIL.fail(
            f"the mail server can't be used ({type(error).__name__})",
            "check the host and port in SMTP_URL, and the firewall; mails wait in the outbox",
        )
    else:
        yield _MAIL.ok("the mail server answers")


def check_web(config: Config) -> Iterator[Finding]:
    """Ask the public URL for its health, as a client would."""
    parts = urlsplit(config.base_url)
    try:
        connection = _connect(parts.scheme, parts.hostname or "", parts.port)
        try:
            if isinstance(connection.sock, ssl.SSLSocket):
                yield _check_certificate(connection.sock)
            connection.request("GET", f"{parts.path}/healthz", headers=_JSON)
            status = connection.getresponse().status
        finally:
            connection.close()
    except ssl.SSLCertVerificationError as error:
        yield _WEB.fail(
            f"the certificate of BASE_URL isn't valid: {error.verify_message}", "renew it"
        )
        return
    except (OSError, http.client.HTTPException) as error:
        yield _WEB.fail(
            f"BASE_URL doesn't answer ({type(error).__name__})",
            "start the web process, and check the proxy and the host's address",
        )
        return
    if status != http.HTTPStatus.OK:
        yield _WEB.fail(f"BASE_URL/healthz returns {status}", "check the proxy's configuration")
    else:
        yield _WEB.ok("BASE_URL answers")


def _connect(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    connection: http.client.HTTPConnection = (
        http.client.HTTPSConnection(host, port, timeout=_CONNECT_SECONDS)
        if scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=_CONNECT_SECONDS)
    )
    connection.connect()
    return connection


def _check_certificate(connection: ssl.SSLSocket) -> Finding:
    ends = str((connection.getpeercert() or {}).get("notAfter", ""))
    left = ssl.cert_time_to_seconds(ends) - time.time()
    words = f"the certificate of BASE_URL is valid for {days_and_hours(left)}"
    if left < _EXPIRES_SOON_SECONDS:
        return _WEB.warn(words, "renew it, and check why that isn't automatic")
    return _WEB.ok(words)


def check_payments(config: Config) -> Iterator[Finding]:
    """Say when a provider that is set up last sent an event; the service calls no provider."""
    used = [name for name in PROVIDERS if getattr(config, f"{name}_webhook_secret", "")]
    if not used:
        return
    newest = select(func.max(PaymentEvent.received_at))
    engine = make_probe_engine(config)
    try:
        with engine.connect() as connection:
            for name in used:
                at = connection.scalar(newest.where(PaymentEvent.provider == name))
                if at is None:
                    yield _PAYMENTS.warn(
                        f"{name} has never sent an event",
                        f"send a test event to BASE_URL/api/v1/webhooks/{name}",
                    )
                else:
                    age = days_and_hours((utc_now() - at).total_seconds())
                    yield _PAYMENTS.ok(f"{name} sent its last event {age} ago")
    except SQLAlchemyError:
        return  # the lines about the database say why
    finally:
        engine.dispose()
