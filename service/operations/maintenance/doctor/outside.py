"""What is reached over a network: mail, the public URL, payments, backups, Spark."""

import http.client
import os
import smtplib
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from service.config import Config
from service.core.db import make_probe_engine
from service.errors import ConfigError
from service.mail.delivery import check_server
from service.models.base import utc_now
from service.models.billing.payments import PROVIDERS, PaymentEvent
from service.operations.backup.manifests import list_backups, time_of
from service.operations.backup.repository import BackupError, Repository
from service.operations.maintenance.doctor.findings import (
    Diagnosis,
    days_and_hours,
    fail,
    judge,
    ok,
    warn,
)

_SPARK_SECONDS: Final = 90
_SPARK_ADVICE: Final = "see docs/spark.md"
_BACKUP_LATE_SECONDS: Final = 26 * 3600.0
_BACKUP_OLD_SECONDS: Final = 7 * 86_400.0
_CONNECT_SECONDS: Final = 10.0
_EXPIRES_SOON_SECONDS: Final = 14 * 86_400
_JSON: Final = {"Accept": "application/json"}


def check_mail(config: Config) -> Iterator[Diagnosis]:
    """Connect and sign in to the mail server, without sending anything."""
    if not config.smtp_url:
        yield ok(f"mail is written to the folder {Path(config.outbox_folder).name}")
        return
    try:
        check_server(config)
    except smtplib.SMTPAuthenticationError:
        yield fail("the mail server rejects the user or password", "check SMTP_URL")
    except ssl.SSLError:
        yield fail("the mail server's certificate isn't valid", "check the host in SMTP_URL")
    except OSError as error:
        yield fail(
            f"the mail server can't be used ({type(error).__name__})",
            "check the host and port in SMTP_URL, and the firewall; mails wait in the outbox",
        )
    else:
        yield ok("the mail server answers")


def check_web(config: Config) -> Iterator[Diagnosis]:
    """Ask the public URL for its health, as a client would."""
    parts = urlsplit(config.base_url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=_CONNECT_SECONDS)
    try:
        try:
            connection.connect()
            if isinstance(connection.sock, ssl.SSLSocket):
                ends = str((connection.sock.getpeercert() or {}).get("notAfter", ""))
                left = ssl.cert_time_to_seconds(ends) - time.time()
                yield judge(
                    f"the certificate of BASE_URL is valid for {days_and_hours(left)}",
                    "renew it, and check why that isn't automatic",
                    warns=left < _EXPIRES_SOON_SECONDS,
                )
            connection.request("GET", f"{parts.path}/healthz", headers=_JSON)
            status = connection.getresponse().status
        finally:
            connection.close()
    except ssl.SSLCertVerificationError as error:
        yield fail(f"the certificate of BASE_URL isn't valid: {error.verify_message}", "renew it")
        return
    except (OSError, http.client.HTTPException) as error:
        yield fail(
            f"BASE_URL doesn't answer ({type(error).__name__})",
            "start the web process, and check the proxy and the host's address",
        )
        return
    if status != http.HTTPStatus.OK:
        yield fail(f"BASE_URL/healthz returns {status}", "check the proxy's configuration")
    else:
        yield ok("BASE_URL answers")


def check_payments(config: Config) -> Iterator[Diagnosis]:
    """Say when a provider that is set up last sent an event; the service calls no provider."""
    used = [name for name in PROVIDERS if getattr(config, f"{name}_webhook_secret", "")]
    if not used:
        return
    newest = select(func.max(PaymentEvent.received_at))
    try:
        with make_probe_engine(config).connect() as connection:
            for name in used:
                at = connection.scalar(newest.where(PaymentEvent.provider == name))
                if at is None:
                    yield warn(
                        f"{name} has never sent an event",
                        f"send a test event to BASE_URL/api/v1/webhooks/{name}",
                    )
                else:
                    age = days_and_hours((utc_now() - at).total_seconds())
                    yield ok(f"{name} sent its last event {age} ago")
    except SQLAlchemyError:
        return  # the lines about the database say why


def check_backups(environment: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Look at the time of the newest backup, which isn't read."""
    if not environment.get("BACKUP_URL", "").strip():
        yield warn("BACKUP_URL is not set", "make backups; see Backups")
        return
    try:
        ids = list_backups(Repository.from_environment(environment))
    except (ConfigError, BackupError, OSError) as error:
        words = getattr(error, "strerror", None) or type(error).__name__
        words = str(error) if isinstance(error, ConfigError) else words
        yield fail(f"the backups can't be listed: {words}", "check BACKUP_URL")
        return
    if not ids:
        yield fail("there is no backup at BACKUP_URL", "run: tallystick backup create")
        return
    age = max(0.0, (utc_now() - time_of(ids[0])).total_seconds())
    yield judge(
        f"the last backup is {days_and_hours(age)} old",
        "run: tallystick backup create",
        warns=age > _BACKUP_LATE_SECONDS,
        fails=age > _BACKUP_OLD_SECONDS,
    )


def check_spark(config: Config) -> Iterator[Diagnosis]:
    """Run a small job in a process of its own: the cluster answers, versions and packages fit."""
    if not (config.spark_remote or config.spark_master):
        return
    settings = {"SPARK_REMOTE": config.spark_remote, "SPARK_MASTER": config.spark_master}
    given = {**os.environ, **settings}
    env = {name: value for name, value in given.items() if value or name not in settings}
    try:
        done = subprocess.run(
            (sys.executable, "-m", "detectors.distributed.spark"),
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SPARK_SECONDS,
            check=False,
            text=True,
        )
    except subprocess.TimeoutExpired:
        problem = f"a small job on Spark didn't end within {_SPARK_SECONDS} seconds"
        yield fail(problem, "look whether the cluster has free cores")
        return
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        yield ok(lines[-1])
    elif done.returncode == 1 and lines:
        problem, _, advice = lines[-1].partition(". ")
        yield fail(problem, advice.rstrip(".") or _SPARK_ADVICE)
    else:
        install = "install 'tallystick-server[spark]' beside the service; " + _SPARK_ADVICE
        yield fail("a small job on Spark failed", install)
