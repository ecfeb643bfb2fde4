"""/settings/assumptions: the numbers that an account's audits assume."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

from flask import redirect, render_template, request, url_for

from detectors.contract import ASSUMPTIONS, read_assumptions
from detectors.wording.assumptions import read_typed, unit_name, write_typed, write_value
from detectors.wording.names import introduce_detectors
from service.models.audits.audit_settings import find_settings, save_assumptions
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import get_session

blueprint = PrivatePages("assumptions", __name__, url_prefix="/settings/assumptions")


@blueprint.get("")
@require_visitor
def home() -> str:
    chosen = find_settings(get_session(), current_caller().account_id).assumptions
    typed = {
        each.name: write_typed(each, chosen.get(each.name, each.default)) for each in ASSUMPTIONS
    }
    return _show(typed, {}, is_saved="saved" in request.args)


@blueprint.post("")
@require_visitor
def save() -> Any:
    """Save the assumptions; those that are left empty get their defaults."""
    typed = {each.name: request.form.get(each.name, "") for each in ASSUMPTIONS}
    values, problems = dict[str, float](), dict[str, str]()
    for each in ASSUMPTIONS:
        if not typed[each.name].strip():
            continue
        try:
            values[each.name] = read_typed(each, typed[each.name])
        except ValueError as error:
            problems[each.name] = str(error)
    if problems:
        return _show(typed, problems), 422
    save_assumptions(get_session(), current_caller().account_id, read_assumptions(values))
    get_session().commit()
    return redirect(url_for("assumptions.home", saved=""), 303)


@blueprint.post("/reset")
@require_visitor
def reset() -> Any:
    """Return to the defaults."""
    save_assumptions(get_session(), current_caller().account_id, {})
    get_session().commit()
    return redirect(url_for("assumptions.home", saved=""), 303)


def _show(typed: Mapping[str, str], problems: Mapping[str, str], *, is_saved: bool = False) -> str:
    rows = []
    for each in ASSUMPTIONS:
        hint = f"Default: {write_value(each, each.default)}."
        if lowest := each.limits[0]:
            hint += f" Minimum: {write_value(each, lowest)}."
        problem = problems.get(each.name, "")
        rows.append((each, unit_name(each), typed[each.name], hint, problem))
    known, groups = introduce_detectors(), []
    for code, some in groupby(rows, lambda row: row[0].detector):
        named = (known[name].name for name in known if name.startswith(f"{code}_"))
        groups.append((next(named, "All findings"), list(some)))
    return render_template(
        "pages/account/assumptions.html", groups=groups, problems=problems, is_saved=is_saved
    )
