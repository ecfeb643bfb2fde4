"""/findings: the findings of all calls of an account, and what became of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from flask import Blueprint, redirect, render_template, request, url_for

from service.errors import InvalidRequestError
from service.models.calls.account_findings import (
    ACKNOWLEDGED,
    DISMISSED,
    FIXED,
    OPEN,
    RETURNED,
    AccountFinding,
)
from service.models.calls.finding_list import (
    FILTERS,
    UNRESOLVED_NAME,
    count_by_state,
    list_account_findings,
)
from service.models.identity.accounts import Account
from service.operations.account_findings import (
    ACTIONS,
    Realized,
    change_findings,
    find_newest_day,
    measure_realized,
)
from service.web.auth.callers import current_caller
from service.web.auth.visitors import require_visitor
from service.web.http.current import get_session
from service.web.http.headers import keep_private
from service.web.http.paths import read_id
from service.web.schemas.labels import read_label

STATE_WORDS: Final[Mapping[str, str]] = {
    OPEN: "Open",
    ACKNOWLEDGED: "Acknowledged",
    DISMISSED: "Dismissed",
    FIXED: "Fixed",
    RETURNED: "Returned",
}
_SHOWN: Final = 200

blueprint = Blueprint("findings", __name__, url_prefix="/findings")
blueprint.after_request(keep_private)


class Line(NamedTuple):
    """A finding, and what its fix has saved, if it is fixed."""

    finding: AccountFinding
    realized: Realized | None


@blueprint.get("")
@require_visitor
def home() -> str:
    session, account_id = get_session(), current_caller().account_id
    chosen = request.args.get("state", UNRESOLVED_NAME)
    chosen = chosen if chosen in FILTERS else UNRESOLVED_NAME
    found = list_account_findings(session, account_id, FILTERS[chosen], _SHOWN)
    return render_template(
        "pages/findings/home.html",
        lines=add_realized(found),
        chosen=chosen,
        states=STATE_WORDS,
        counts=count_by_state(session, account_id),
        shown=_SHOWN,
        changed=request.args.get("changed", type=int),
    )


@blueprint.post("")
@require_visitor
def change() -> Any:
    """Change the state of the chosen findings."""
    session, account_id = get_session(), current_caller().account_id
    action, chosen = request.form.get("action", ""), request.form.get("state", "")
    if action not in ACTIONS:
        raise InvalidRequestError("Choose what to do with the findings.")
    owner = session.get_one(Account, account_id)
    finding_ids = [each for each in request.form.getlist("finding") if read_id(each)]
    changed = change_findings(
        session.connection(),
        account_id,
        finding_ids,
        action,
        changed_by=owner.email,
        reason=read_label(request.form, "reason"),
    )
    session.commit()
    state = chosen if chosen in FILTERS else None
    return redirect(url_for("findings.home", state=state, changed=changed), 303)


def add_realized(found: Sequence[AccountFinding]) -> list[Line]:
    """Add the realized savings of fixed findings."""
    connection = get_session().connection()
    newest = find_newest_day(connection, current_caller().account_id)
    return [
        Line(each, measure_realized(connection, each, newest) if newest else None) for each in found
    ]
