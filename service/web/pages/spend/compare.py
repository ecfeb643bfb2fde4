"""/compare: two periods of an account, or two of its audits, side by side."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

from flask import render_template, request

from detectors.contract import SpendChange
from detectors.wording.actions import title
from detectors.wording.comparison import STATUS_WORDS
from detectors.wording.figures import counted, usd
from service.core.time_zones import minute
from service.errors import InvalidRequestError
from service.models.audits.audit_lists import AuditFilter, Reported, list_audits, list_reported
from service.models.audits.audits import (
    DONE,
    Audit,
    find_audit,
)
from service.models.calls.spend import Periods, find_last_day
from service.operations.comparing import (
    AUDITS,
    Compared,
    ComparedFinding,
    compare_audits,
    compare_periods,
)
from service.reports.documents import find_published
from service.web.auth.callers import current_caller
from service.web.auth.visitors import (
    SOURCE_WORDS,
    PrivatePages,
    current_days,
    find_zone,
    require_visitor,
)
from service.web.http.current import get_session
from service.web.http.paths import read_id
from service.web.pages.spend.charts import UNNAMED
from service.web.pages.spend.query import PERIODS
from service.web.pages.tables import Column, read_tables
from service.web.schemas.comparison import AuditPair, ImpossibleError, choose
from service.web.schemas.spend import find_day

SHOWN: Final = 25
_LISTED: Final = 50
_DAYS: Final = {
    "from": "first",
    "to": "last",
    "before_from": "before_first",
    "before_to": "before_last",
}
_PARAMETERS: Final = ("days", "before", "after", *_DAYS)
_DAYS_EXPECTED: Final = "Enter days from 2000 to 2100."
_CHANGE_COLUMNS: Final = (
    Column("before", "Before", is_number=True),
    Column("after", "After", is_number=True),
    Column("change", "Change", is_number=True),
    Column("percent", "Percent", is_number=True),
)
_COLUMNS: Final = {
    "routes": (Column("name", "Route"), *_CHANGE_COLUMNS),
    "models": (Column("name", "Model"), *_CHANGE_COLUMNS),
}
_CHANGES: Final[Mapping[str, Callable[[SpendChange], Any]]] = {
    "name": lambda each: each.labels[-1].casefold(),
    "before": lambda each: each.before_usd,
    "after": lambda each: each.after_usd,
    "change": lambda each: each.change_usd,
    "percent": lambda each: each.change_pct,
}
_FINDINGS: Final[Mapping[str, Callable[[ComparedFinding], Any]]] = {
    "finding": lambda each: str(title(each)).casefold(),
    "status": lambda each: each.status,
    "route": lambda each: each.route.casefold(),
    "before": lambda each: each.before_usd,
    "after": lambda each: each.after_usd,
}

blueprint = PrivatePages("comparison_page", __name__)


@blueprint.get("/compare")
@require_visitor
def show() -> str | tuple[str, int]:
    of = current_days()
    today = of.today()
    compared, problem, wanted = None, "", choose({}, today)
    try:
        wanted = _choose(today)
        compared = _compare(wanted)
    except (ImpossibleError, InvalidRequestError) as error:
        problem = str(error)
    pair = wanted if isinstance(wanted, AuditPair) else None
    columns = {**_COLUMNS, "findings": _list_finding_columns(compared)}
    tables = read_tables(request.args, columns, path="/compare", parameters=_chosen())
    page = render_template(
        "pages/spend/compare.html",
        compared=compared,
        tables=tables,
        routes=tables["routes"].arrange(compared.routes, _CHANGES) if compared else (),
        models=tables["models"].arrange(compared.models, _CHANGES) if compared else (),
        findings=tables["findings"].arrange(compared.findings, _FINDINGS) if compared else (),
        problem=problem,
        pair=pair,
        of=of,
        periods=choose({}, today) if pair else wanted,
        shown=SHOWN,
        days=_find_preset(today),
        audits=[(audit.id, _describe(audit)) for audit in _list_choices(pair)],
        has_calls=_has_calls(compared),
        statuses=STATUS_WORDS,
        unnamed=UNNAMED,
    )
    return (page, 422) if problem else page


def _list_finding_columns(compared: Compared | None) -> Sequence[Column]:
    """Say which days savings are of where they aren't monthly, as on other pages."""
    before, after = "Savings before", "Savings after"
    if compared is not None and compared.kind != AUDITS:
        before, after = (
            "Savings per day" if compared.is_per_day else f"Savings in {counted(span.days, 'day')}"
            for span in (compared.before, compared.after)
        )
        before, after = f"{before} before", f"{after} after"
    return (
        Column("finding", "Finding"),
        Column("status", "Status"),
        Column("route", "Route"),
        Column("before", before, is_number=True),
        Column("after", after, is_number=True),
    )


def _chosen() -> dict[str, str]:
    """Return the parameters of what is compared."""
    return {name: value for name, value in request.args.items() if name in _PARAMETERS}


def _choose(today: date) -> AuditPair | Periods:
    """Return what to compare; an audit of the account alone is a pair that lacks the other."""
    given = _read(today)
    before, after = given.get("before", ""), given.get("after", "")
    is_single = bool(before) != bool(after)
    if is_single and find_audit(get_session(), current_caller().account_id, before or after):
        return AuditPair(before, after)
    return choose(given, today)


def _read(today: date) -> Mapping[str, Any]:
    """Return the audits and days of the query string; empty fields of a form are not given."""
    audits = {name: read_id(request.args.get(name, "")) for name in ("before", "after")}
    given: dict[str, Any] = {name: audit_id for name, audit_id in audits.items() if audit_id}
    if given:
        return given if "before" in given else {**given, **_find_previous(given["after"])}
    days = _find_preset(today)
    if days:
        return {"first": today - timedelta(days=days - 1)}
    for parameter, name in _DAYS.items():
        text = request.args.get(parameter)
        if text:
            given[name] = find_day(text)
            if given[name] is None:
                raise ImpossibleError(_DAYS_EXPECTED, parameter, "must be a day")
    return given


def _find_preset(today: date) -> int:
    """Return the number of days of a period that ends today, or 0 for other periods."""
    days = request.args.get("days", "")
    if days in map(str, PERIODS):
        return int(days)
    return 0 if any(name in request.args for name in (*_DAYS, "before", "after")) else PERIODS[1]


def _find_previous(after_id: str) -> Mapping[str, str]:
    """Return the last audit of the same source before this audit that has a report, if any."""
    session, account_id = get_session(), current_caller().account_id
    after = find_audit(session, account_id, after_id)
    if after is None:
        return {}
    wanted = AuditFilter(limit=_LISTED, status=DONE, source=after.source)
    earlier = (
        audit["id"]
        for audit in list_audits(session, account_id, wanted, ("id", "created_at", "window_days"))
        if (audit["created_at"], audit["window_days"]) < (after.created_at, after.window_days)
        and find_published(session, audit["id"])  # reports of batches are deleted after a while
    )
    found = next(earlier, None)
    return {"before": found} if found else {}


def _compare(wanted: AuditPair | Periods) -> Compared | None:
    """Compare the audits or periods; None while an audit of the pair is still to be chosen."""
    session, account_id = get_session(), current_caller().account_id
    if isinstance(wanted, AuditPair):
        if not wanted.before or not wanted.after:
            return None
        ids = wanted.before, wanted.after
        return compare_audits(session, account_id, *ids, limit=SHOWN, as_shown=True)
    return compare_periods(session, account_id, wanted, limit=SHOWN, of=current_days())


def _has_calls(compared: Compared | None) -> bool:
    """Check whether the account has calls, which what is compared often shows already."""
    if compared is not None and any(
        each.calls or each.spend_usd for each in (compared.before, compared.after)
    ):
        return True
    account_id, of = current_caller().account_id, current_days()
    return find_last_day(get_session(), account_id, of.today(), is_local=of.is_local) is not None


def _list_choices(pair: AuditPair | None) -> Sequence[Reported | Audit]:
    """Return the newest audits with a report, those of the account first, and the chosen ones."""
    session, account_id = get_session(), current_caller().account_id
    listed = list_reported(session, account_id, _LISTED)
    known = {audit.id for audit in listed}
    chosen = (pair.before, pair.after) if pair else ()
    missing = [each for each in chosen if each and each not in known]
    others = (find_audit(session, account_id, each) for each in missing)
    return [*listed, *(audit for audit in others if audit is not None)]


def _describe(audit: Reported | Audit) -> str:
    """Return the words of a choice, which two lists show: templates take longer for each part."""
    days = f", {audit.window_days} days" if audit.window_days else ""
    words = SOURCE_WORDS[audit.source]
    return f"{minute(audit.created_at, find_zone())} · {usd(audit.total_spend_usd)} · {words}{days}"
