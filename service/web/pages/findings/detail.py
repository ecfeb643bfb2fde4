"""/findings/<finding_id>: one finding of an account over time."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final

from flask import redirect, render_template, request, url_for

from detectors.charts import savings_by_audit, stacked_columns
from detectors.wording.fix_code import write_fix
from detectors.wording.labels import inert
from service.errors import InvalidRequestError, NotFoundError
from service.models.audits.audits import find_document
from service.models.calls.account_findings import (
    ASSIGNEE,
    MAX_ASSIGNEE,
    MAX_NOTE,
    NOTE,
    AccountFinding,
)
from service.models.calls.finding_list import (
    find_account_finding,
    list_changes,
    list_days,
    list_points,
)
from service.models.identity.accounts import Account
from service.operations.findings.changes import edit_findings
from service.operations.findings.realized import measure_realized
from service.reports.documents import read_listed
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import get_connection, get_session
from service.web.pages.findings.forms import read_assignee, read_note
from service.web.pages.findings.home import STATE_WORDS

_DAYS: Final = 30
_NO_FINDING: Final = "Your account has no finding with this ID."

blueprint = PrivatePages("findings_detail", __name__, url_prefix="/findings")


@blueprint.get("/<finding_id>")
@require_visitor
def show(finding_id: str) -> str:
    return _show(_find(finding_id))


@blueprint.post("/<finding_id>")
@require_visitor
def edit(finding_id: str) -> Any:
    """Change the assignee and the note."""
    finding, session = _find(finding_id), get_session()
    try:
        texts = {ASSIGNEE: read_assignee(request.form), NOTE: read_note(request.form)}
    except InvalidRequestError as error:
        return _show(finding, str(error)), 422
    owner = session.get_one(Account, finding.account_id)
    connection = session.connection()
    edit_findings(connection, owner.id, [finding.id], texts, changed_by=owner.email)
    session.commit()
    return redirect(url_for("findings_detail.show", finding_id=finding.id, saved=""), 303)


def _find(finding_id: str) -> AccountFinding:
    account_id = current_caller().account_id
    found = find_account_finding(get_session(), account_id, finding_id)
    if found is None:
        raise NotFoundError(_NO_FINDING)
    return found


def _show(finding: AccountFinding, problem: str = "") -> str:
    session, points = get_session(), list_points(get_connection(), finding)
    fixed = [finding.id] if finding.fixed_at is not None else []
    realized = measure_realized(session.connection(), finding.account_id, fixed)
    # As the latest report that has it says it, with its formula.
    _, document = find_document(session, finding.account_id, finding.audit_id)
    listed = () if document is None else read_listed(document).findings
    reported = next((each for each in listed if each.id == finding.finding_id), None)
    # What the finding could have saved by day of call, until its last day.
    last = finding.last_seen.date()
    first = last - timedelta(days=_DAYS - 1)
    by_day = list_days(get_connection(), finding, first)
    amounts: dict[date, dict[str | None, Decimal]]
    amounts = {day: {finding.id: saving} for day, saving in by_day.items()}
    names: dict[str | None, str] = {finding.id: "Potential savings"}
    days = None
    if by_day:
        days = stacked_columns(amounts, names, (first, last), measure="Savings")
    return render_template(
        "pages/findings/finding.html",
        finding=finding,
        code=write_fix(finding, reported.suggested_model or "" if reported else ""),
        formula=inert(reported.formula) if reported else "",
        days=days,
        realized=realized.get(finding.id),
        chart=savings_by_audit(points) if points else None,
        changes=list_changes(session, finding),
        has_report=reported is not None,
        states=STATE_WORDS,
        is_saved="saved" in request.args,
        problem=problem,
        typed=request.form if problem else {},
        max_assignee=MAX_ASSIGNEE,
        max_note=MAX_NOTE,
    )
