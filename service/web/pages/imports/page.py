"""/imports: what an account sent, by day: batches by client, and uploads."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from flask import Blueprint, render_template, request, url_for

from service.models.audits.audits import ACCOUNT, INGEST, SOURCES, STATUSES, UPLOAD
from service.models.audits.dashboard import ClientDay, Filters, page_of_audits
from service.models.imports.by_day import (
    ACCOUNT_AUDITS_SHOWN,
    LINES_SHOWN,
    Batches,
    Chosen,
    Days,
    OneAudit,
    find_days,
    list_account_audits,
    list_batches,
    list_clients,
    list_uploads,
)
from service.web.auth.callers import current_caller
from service.web.auth.visitors import require_visitor
from service.web.http.current import get_session
from service.web.http.headers import keep_private
from service.web.http.paths import read_id

_YEARS: Final = range(2000, 2200)

blueprint = Blueprint("imports", __name__)
blueprint.after_request(keep_private)


class DayOfImports(NamedTuple):
    """What was sent on one day."""

    day: date
    batches: Sequence[Batches]
    uploads: Sequence[OneAudit]
    is_whole: bool  # whether every line of the day is here


@blueprint.get("/imports")
@require_visitor
def home() -> str:
    """Show the imports of some days, or the batches of one client on one day."""
    day = _read_day("day")
    if day is not None:
        return _show_client(ClientDay(day, _read("client"), _read("environment")))
    session, account_id, chosen = get_session(), current_caller().account_id, read_chosen()
    days = find_days(session, account_id, chosen, _read_day("until"))
    days, imports = _list_imports(account_id, days, chosen) if days else (None, ())
    return render_template(
        "pages/imports/imports.html",
        chosen=chosen,
        days=days,
        clients=list_clients(session, account_id),
        imports=imports,
        lines_shown=LINES_SHOWN,
        account_audits=_list_account_audits(account_id, days, chosen) if days else (),
        account_audits_shown=ACCOUNT_AUDITS_SHOWN,
        pages=_page_links(days, chosen) if days else {},
        link=_client_url,
    )


def _list_imports(
    account_id: str, days: Days, chosen: Chosen
) -> tuple[Days, Sequence[DayOfImports]]:
    """Return the imports of the days that fit on the page, and these days."""
    session = get_session()
    has_batches, has_uploads = (chosen.source in ("", source) for source in (INGEST, UPLOAD))
    batches = list_batches(session, account_id, days, chosen) if has_batches else ()
    uploads = list_uploads(session, account_id, days, chosen) if has_uploads else ()
    # Lines of later days than the first that doesn't fit are all there.
    cut = [lines[LINES_SHOWN].day for lines in (batches, uploads) if len(lines) > LINES_SHOWN]
    batches, uploads = batches[:LINES_SHOWN], uploads[:LINES_SHOWN]
    found = sorted({each.day for each in batches} | {each.day for each in uploads}, reverse=True)
    whole = [day for day in found if not cut or day > max(cut)]
    shown = whole or found[:1]
    imports = [
        DayOfImports(
            day,
            [line for line in batches if line.day == day],
            [line for line in uploads if line.day == day],
            is_whole=day in whole,
        )
        for day in shown
    ]
    if not cut:
        return days, imports
    rest = find_days(session, account_id, chosen, shown[-1] - timedelta(days=1))
    return days._replace(first=shown[-1], older=rest and rest.last), imports


def _list_account_audits(account_id: str, days: Days, chosen: Chosen) -> Sequence[OneAudit]:
    if chosen.source not in ("", ACCOUNT):
        return ()
    return list_account_audits(get_session(), account_id, days, chosen)


def _show_client(client_day: ClientDay) -> str:
    chosen, query = read_chosen(), request.args
    filters = Filters(
        status=chosen.status,
        source=INGEST,
        before=read_id(query.get("before", "")),
        after=read_id(query.get("after", "")),
        client_day=client_day,
    )
    page = page_of_audits(get_session(), current_caller().account_id, filters)
    url, links = _client_url(client_day, chosen), {}
    if page.newer and page.rows:
        links["newer"] = f"{url}&after={page.rows[0].id}"
    if page.older and page.rows:
        links["older"] = f"{url}&before={page.rows[-1].id}"
    back = url_for(
        "imports.home", until=client_day.day, **_named(chosen), _anchor=str(client_day.day)
    )
    return render_template(
        "pages/imports/batches.html",
        client_day=client_day,
        chosen=chosen,
        audits=page.rows,
        pages=links,
        back=back,
    )


def _client_url(batches: Batches | ClientDay, chosen: Chosen) -> str:
    """Return the link to the batches of a client on a day."""
    names = {"client": batches.client or "", "environment": batches.environment or ""}
    return f"/imports?{urlencode({'day': batches.day.isoformat(), **names, **_named(chosen)})}"


def _page_links(days: Days, chosen: Chosen) -> Mapping[str, str]:
    ends = {"newer": days.newer, "older": days.older}
    return {
        name: f"/imports?{urlencode({**_named(chosen), 'until': end.isoformat()})}"
        for name, end in ends.items()
        if end is not None
    }


def _named(chosen: Chosen) -> dict[str, Any]:
    return {name: value for name, value in chosen._asdict().items() if value}


def read_chosen() -> Chosen:
    """Return the filters of the query string; ignore unknown values."""
    status, source = _read("status"), _read("source")
    return Chosen(
        status=status if status in STATUSES else "", source=source if source in SOURCES else ""
    )


def _read(name: str) -> str:
    """Return a value of the query string; one that no row can have as an empty one."""
    value = request.args.get(name, "")
    return "" if "\0" in value else value


def _read_day(name: str) -> date | None:
    """Return a day of the query string; None for what is no day that an import can have."""
    try:
        day = date.fromisoformat(_read(name))
    except ValueError:
        return None
    return day if day.year in _YEARS else None
