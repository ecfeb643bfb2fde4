"""/settings/recalculate: recalculate the reports whose prices or assumptions have changed since."""

from typing import Any

from flask import redirect, render_template, request, url_for

from service.operations.outdated_reports import list_outdated, recalculate_outdated
from service.web.auth.callers import current_caller
from service.web.auth.caps import count_recalculations_allowed
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import current_queues, get_session
from service.web.http.paths import read_id

blueprint = PrivatePages("recalculation", __name__, url_prefix="/settings/recalculate")


@blueprint.get("")
@require_visitor
def home() -> str:
    session, account_id = get_session(), current_caller().account_id
    after = read_id(request.args.get("after", ""))
    return render_template(
        "pages/account/recalculation.html",
        page=list_outdated(session, account_id, after),
        allowed=count_recalculations_allowed(session, account_id),
        is_continued=bool(after),
        queued=request.args.get("queued", type=int),
    )


@blueprint.post("")
@require_visitor
def recalculate() -> Any:
    """Queue the listed audits again, as many as the account may queue."""
    session, account_id = get_session(), current_caller().account_id
    allowed = count_recalculations_allowed(session, account_id)
    audit_ids = [each for each in request.form.getlist("audit_id") if read_id(each)]
    audits = recalculate_outdated(session, account_id, audit_ids, allowed)
    session.commit()
    for audit in audits:
        current_queues().enqueue_audit(audit.id, audit.source, audit.attempts + 1)
    return redirect(url_for("recalculation.home", queued=len(audits)), 303)
