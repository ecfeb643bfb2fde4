"""The mail that a report is ready: its one sentence, its first findings, a link to it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Connection

from detectors.contract import Finding, Method, Report
from detectors.wording.figures import usd
from detectors.wording.headline import sentence
from detectors.wording.labels import inert
from detectors.wording.names import detector_name
from service.config import Config
from service.core.tokens import sign_report
from service.models.mail.outbox import post_mail
from service.models.mail.report_mails import REPORT_READY, find_report_reader

_TOLD: Final = 3


def post_report_ready(connection: Connection, audit_id: str, report: Report) -> str | None:
    """Post the mail in the transaction that publishes; returns its id, to enqueue after commit.

    None where the account wants no such mail, or where the report was told of before: a rerun
    replaces a report, and nobody is told twice.
    """
    reader = find_report_reader(connection, audit_id)
    if reader is None:
        return None
    return post_mail(
        connection,
        kind=REPORT_READY,
        recipient=reader.email,
        account_id=reader.account_id,
        parameters={
            "audit_id": audit_id,
            "sentence": sentence(report),
            "findings": [
                tell_finding(finding, report.methods) for finding in report.findings[:_TOLD]
            ],
            "more": max(0, len(report.findings) - _TOLD),
            "gets_many": reader.gets_many,
        },
        dedupe_key=f"{REPORT_READY}:{audit_id}",
    )


def report_url(config: Config, audit_id: str) -> str:
    """A fresh signed link, whatever address a request called us by."""
    return f"{config.base_url.rstrip('/')}/r/{sign_report(config.secret_key, audit_id)}"


def write_report_ready(config: Config, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The subject, and what the templates print. The link is made now: nothing at rest opens it."""
    site = config.base_url
    words = {
        **{name: parameters[name] for name in ("sentence", "findings", "more", "gets_many")},
        "url": report_url(config, parameters["audit_id"]),
        "days": config.report_link_days,
        "settings_url": f"{site}/settings",
        "site": site,
    }
    return f"Your cost report is ready: {parameters['sentence']}", words


def tell_finding(finding: Finding, methods: Iterable[Method] = ()) -> dict[str, str]:
    """What a mail says of one finding."""
    is_priced = finding.confidence != "INFORMATIONAL"
    return {
        "what": detector_name(finding.detector, methods),
        "where": inert(finding.route),
        "saving": f"{usd(finding.monthly_cost_impact_usd)}/month" if is_priced else "",
    }
