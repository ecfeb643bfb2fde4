"""A report is ready: the mail with its headline, its first findings and a link; and the notices."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from detectors.contract import Finding, Method, Report
from detectors.wording.actions import action, list_checks, with_savings
from detectors.wording.headline import first_actions, sentence, short_title
from detectors.wording.impact import impact_alone, is_priced
from detectors.wording.imports import as_import
from detectors.wording.labels import inert, may_be_link
from detectors.wording.projection import caution
from service.config import Config
from service.core.tokens import sign_report
from service.models.mail.outbox import post_mail
from service.models.mail.report_mails import (
    REPORT_READY,
    find_report_reader,
    link_parameters,
)
from service.models.notices.deliveries import post_notice
from service.models.notices.events import REPORT_READY as REPORT_EVENT

_NOTICE_DOLLARS: Final = (
    "total_spend_usd",
    "projected_spend_usd",
    "verified_savings_usd",
    "estimated_savings_usd",
    "conditional_savings_usd",
)
_LINK_LABEL: Final = "(a label that looks like a link; see the report)"


class Posted(NamedTuple):
    """What to enqueue after the commit: the mail, if there is one, and deliveries of notices."""

    mail_id: str | None = None
    delivery_ids: Sequence[str] = ()


def post_report_ready(connection: Connection, audit_id: str, report: Report) -> Posted:
    """Post the mail in the publishing transaction; a report of an upload is a notice, too.

    There is no mail if the account doesn't want it, or if the report was already mailed: a rerun
    replaces a report without a second mail.
    """
    reader = find_report_reader(connection, audit_id)
    if reader is None:
        return Posted()
    delivery_ids: Sequence[str] = ()
    if reader.is_uploader:
        notice = describe_report(audit_id, report)
        own = (connection, reader.account_id, REPORT_EVENT, notice)
        delivery_ids = post_notice(*own, dedupe_key=audit_id)
    else:
        report = as_import(report)
    listed = first_actions(report)
    checks = [] if listed else list_checks(report.findings, report.methods)
    mail_id = post_mail(
        connection,
        kind=REPORT_READY,
        recipient=reader.email,
        account_id=reader.account_id,
        parameters={
            "audit_id": audit_id,
            "link": link_parameters(connection, reader.account_id, audit_id),
            "title": short_title(report.audit) if report.audit.projected_savings_usd else "",
            "sentence": sentence(report),
            "caution": caution(report.audit),
            "findings": [
                describe_finding(finding, report.methods, has_labels=reader.is_uploader)
                for finding in listed
            ]
            + [{"what": check.words, "where": "", "saving": ""} for check in checks],
            "more": len(with_savings(report.findings)) - len(listed),
            "is_last": reader.is_last,
        },
        dedupe_key=f"{REPORT_READY}:{audit_id}",
    )
    return Posted(mail_id, delivery_ids)


def describe_report(audit_id: str, report: Report) -> dict[str, Any]:
    """Return the data of the notice: the fields of the audit as the API has them."""
    audit = report.audit
    dollars: dict[str, Decimal | None]
    dollars = {name: getattr(audit, name) for name in _NOTICE_DOLLARS}
    return {
        "summary": sentence(report),
        "path": f"/audits/{audit_id}",
        "audit_id": audit_id,
        "records": audit.records,
        "findings_count": len(report.findings),
        **{name: usd if usd is None else float(usd) for name, usd in dollars.items()},
    }


def report_url(config: Config, parameters: Mapping[str, Any]) -> str:
    """Return the audit's signed link, or its page if the owner has revoked the link.

    The host comes from the settings, never from a request.
    """
    site, audit_id = config.base_url.rstrip("/"), parameters["audit_id"]
    # A mail that the previous release posted has no link.
    link = parameters.get("link", {"generation": 0, "issued_at": None})
    if link is None:
        return f"{site}/audits/{audit_id}"
    issued_at = link["issued_at"] and datetime.fromisoformat(link["issued_at"])
    return f"{site}/r/{sign_report(config.secret_key, audit_id, link['generation'], issued_at)}"


def write_report_ready(config: Config, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the subject and the template variables. The link is signed now and never stored."""
    site = config.base_url
    words = {
        **{name: parameters[name] for name in ("sentence", "findings", "more")},
        # Mails that were posted by an earlier release have none.
        "caution": parameters.get("caution", ""),
        "is_last": parameters.get("is_last", False),
        "url": report_url(config, parameters),
        "days": config.report_link_days,
        "settings_url": f"{site}/settings",
        "site": site,
    }
    # A subject has no room for all of the sentence.
    short = parameters.get("title") or parameters["sentence"].partition(". ")[0]
    return f"Your cost report is ready: {short}", words


def describe_finding(
    finding: Finding, methods: Iterable[Method] = (), *, has_labels: bool = True
) -> dict[str, str]:
    """Return the template variables of one finding.

    The mail has no labels of a batch, because a leaked ingest key could write them, and no label of
    an upload that a mail program would make a link of.
    """
    where = _LINK_LABEL if may_be_link(finding.route) else inert(finding.route)
    names_model = has_labels and not may_be_link(finding.model)
    saving = f"{impact_alone(finding)}, {finding.confidence.lower()}"
    return {
        "what": action(finding, methods, has_labels=names_model),
        "where": where if has_labels else "",
        "saving": saving if is_priced(finding) else "",
    }
