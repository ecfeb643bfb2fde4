"""/findings: the findings of all calls of an account, and what became of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from flask import redirect, render_template, request, url_for
from sqlalchemy import Connection, Row
from werkzeug.datastructures import MultiDict

from service.errors import InvalidRequestError
from service.models.base import new_id
from service.models.calls.account_findings import (
    ACKNOWLEDGED,
    ASSIGNEE,
    DISMISSED,
    FIXED,
    MAX_ASSIGNEE,
    OPEN,
    RETURNED,
)
from service.models.calls.finding_list import (
    FindingFilter,
    count_by_state,
    has_more_findings,
    list_account_findings,
    list_values,
)
from service.models.identity.accounts import Account
from service.models.operations.saved_views import list_views
from service.operations.findings.changes import ACTIONS, change_findings, edit_findings, undo
from service.operations.findings.realized import Realized, measure_realized
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, current_days, require_visitor
from service.web.http.current import get_connection, get_session
from service.web.http.paths import read_id
from service.web.pages.findings.forms import read_assignee, read_filter, write_filter
from service.web.pages.findings.waste import map_waste
from service.web.pages.spend.query import read_query
from service.web.pages.tables import Column, Table, read_table
from service.web.schemas.labels import read_label

STATE_WORDS: Final[Mapping[str, str]] = {
    OPEN: "Open",
    ACKNOWLEDGED: "Acknowledged",
    DISMISSED: "Dismissed",
    FIXED: "Fixed",
    RETURNED: "Returned",
}
_ASSIGN: Final = "assign"
_NEW_ASSIGNEE: Final = "new_assignee"  # the filter has a field named assignee
_SHOWN: Final = 200
_ALL: Final = FindingFilter(state="all")
_COLUMNS: Final = (
    Column("detector", "Finding"),
    Column("route", "Route", can_hide=True),
    Column("state", "State", can_hide=True),
    Column("assignee", "Assignee", can_hide=True),
    Column("savings", "Savings", is_number=True),
    Column("seen", "Last seen (UTC)", is_time=True, can_hide=True),
)

blueprint = PrivatePages("findings", __name__, url_prefix="/findings")


class Line(NamedTuple):
    """A finding, and what its fix has saved, if it is fixed."""

    finding: Row[Any]
    realized: Realized | None


@blueprint.get("")
@require_visitor
def home() -> str:
    connection, account_id, shown = (
        get_connection(),
        current_caller().account_id,
        read_filter(request.args),
    )
    table = _read_table(request.args)
    order = "" if table.sort == table.default else table.sort
    found = list_account_findings(connection, account_id, shown, _SHOWN, order=order)
    counts = count_by_state(connection, account_id)
    has_any = bool(counts) or has_more_findings(connection, account_id, _ALL, 0)
    values = list_values(connection, account_id) if has_any else {}
    for key, value in shown.only.items() if has_any else ():
        if value not in values[key]:  # the chosen one is always among the choices
            values[key].append(value)
    return render_template(
        "pages/findings/home.html",
        lines=add_realized(found),
        table=table,
        views=list_views(connection, account_id, table.path),
        undo=read_id(request.args.get("undo", "")),
        waste=map_waste(connection, account_id, current_days()) if counts else None,
        of=current_days(),
        chosen=shown,
        values=values,
        has_any=has_any,
        states=STATE_WORDS,
        shown=_SHOWN,
        changed=request.args.get("changed", type=int),
        undone=request.args.get("undone", type=int),
        max_assignee=MAX_ASSIGNEE,
    )


def _read_table(given: MultiDict[str, str]) -> Table:
    path, parameters = url_for("findings.home"), write_filter(read_filter(given))
    return read_table(given, _COLUMNS, "savings", path=path, parameters=parameters)


@blueprint.post("")
@require_visitor
def change() -> Any:
    """Change the state or the assignee of the chosen findings."""
    finding_ids, batch = (
        [each for each in request.form.getlist("finding") if read_id(each)],
        new_id(),
    )
    connection, owner = _open_owned()
    mine = (connection, owner.id, finding_ids)
    if request.form.get("do") == _ASSIGN:
        texts = {ASSIGNEE: read_assignee(request.form, _NEW_ASSIGNEE)}
        changed = edit_findings(*mine, texts, changed_by=owner.email, batch=batch)
    else:
        action = request.form.get("action", "")
        if action not in ACTIONS:
            raise InvalidRequestError("Choose what to do with the findings.")
        reason = read_label(request.form, "reason")
        changed = change_findings(*mine, action, changed_by=owner.email, reason=reason, batch=batch)
    get_session().commit()
    if "dashboard" in request.form:
        # In the state that its form names.
        parameters = dict(parse_qsl(request.form["dashboard"], keep_blank_values=True))
        query = read_query(parameters, current_days(), path="/dashboard")
        return redirect(f"{query.url(changed=str(changed))}#findings", 303)
    if request.form.get("from") == "finding" and finding_ids:
        return redirect(url_for("findings_detail.show", finding_id=finding_ids[0]), 303)
    undo = {"undo": batch} if changed else {}
    return redirect(_read_table(request.form).url(changed=str(changed), **undo), 303)


@blueprint.post("/undo")
@require_visitor
def undo_changes() -> Any:
    """Undo what a form changed in the last minute."""
    connection, owner = _open_owned()
    batch = read_id(request.form.get("undo", ""))
    undone = undo(connection, owner.id, batch, changed_by=owner.email) if batch else 0
    get_session().commit()
    return redirect(_read_table(request.form).url(undone=str(undone)), 303)


def add_realized(found: Sequence[Row[Any]]) -> list[Line]:
    """Add the realized savings of fixed findings."""
    ids = [each.id for each in found if each.fixed_at is not None]
    realized = measure_realized(get_connection(), current_caller().account_id, ids)
    return [Line(each, realized.get(each.id)) for each in found]


def _open_owned() -> tuple[Connection, Account]:
    session = get_session()
    return session.connection(), session.get_one(Account, current_caller().account_id)
