"""/imports: what an account sent, by day: batches by client, and uploads."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from flask import redirect, render_template, request, url_for
from sqlalchemy import ColumnElement

from service.models.audits.audit_lists import ClientDay, PageFilter, find_position, page_of_audits
from service.models.audits.audits import (
    ACCOUNT,
    DONE,
    FAILED,
    INGEST,
    SOURCES,
    STATUSES,
    UPLOAD,
)
from service.models.base import utc_now
from service.models.calls.future_calls import sum_future_calls
from service.models.imports.by_day import (
    ACCOUNT_AUDITS_SHOWN,
    BATCH_LINES_SHOWN,
    UPLOADS_SHOWN,
    Batches,
    Chosen,
    Days,
    OneAudit,
    SendingClient,
    find_days,
    list_account_audits,
    list_batches,
    list_clients,
    list_uploads,
)
from service.models.imports.span_batches import find_waiting, request_import
from service.models.imports.span_notices import find_recent_spans
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import get_connection, get_session
from service.web.http.paths import read_id
from service.web.pages.tables import Column, read_tables

_YEARS: Final = range(2000, 2200)

blueprint = PrivatePages("imports", __name__)


class DayOfImports(NamedTuple):
    """What was sent on one day."""

    day: date
    batches: Sequence[Batches]
    uploads: Sequence[OneAudit]
    has_more_batches: bool  # which are not listed
    has_more_uploads: bool  # which are on the next page

    @property
    def lines(self) -> Sequence[Batches | OneAudit]:
        return (*self.batches, *self.uploads)


# Each day is a table, and all have one order.
_COLUMNS: Final = {
    "clients": (
        Column("client", "Ingest key"),
        Column("environment", "Environment"),
        Column("seen", "Last seen", is_time=True),
    ),
    "imports": (
        Column("import", "Import"),
        Column("status", "Status"),
        Column("calls", "Calls", is_number=True),
        Column("spend", "Spend", is_number=True),
        Column("seen", "Last seen", is_time=True),
    ),
    "audits": (
        Column("accepted", "Accepted", is_time=True),
        Column("status", "Status"),
        Column("window", "Window", is_number=True),
        Column("calls", "Calls", is_number=True),
        Column("spend", "Spend", is_number=True),
    ),
}
_CLIENT_KEYS: Final[Mapping[str, Callable[[SendingClient], Any]]] = {
    "client": lambda each: (each.client or "").casefold(),
    "environment": lambda each: (each.environment or "").casefold(),
    "seen": lambda each: each.last_seen,
}
_IMPORT_KEYS: Final[Mapping[str, Callable[[Batches | OneAudit], Any]]] = {
    "import": lambda each: (each.client if isinstance(each, Batches) else each.label) or "",
    "status": lambda each: (
        (not each.failed, not each.unfinished, "")
        if isinstance(each, Batches)
        else (each.status != FAILED, each.status == DONE, each.status)
    ),
    "calls": lambda each: each.calls,
    "spend": lambda each: each.spend_usd,
    "seen": lambda each: each.last_seen if isinstance(each, Batches) else each.created_at,
}
_AUDIT_KEYS: Final[Mapping[str, Callable[[OneAudit], Any]]] = {
    "accepted": lambda each: each.created_at,
    "status": lambda each: each.status,
    "window": lambda each: each.window_days,
    "calls": lambda each: each.calls,
    "spend": lambda each: each.spend_usd,
}


class Listed(NamedTuple):
    """The imports of the days that fit on a page, and these days.

    `last_upload` is the ID of the last one if its day continues on the next page.
    """

    days: Days
    imports: Sequence[DayOfImports]
    last_upload: str = ""


class Start(NamedTuple):
    """Where a page continues a day: after an upload, and after the day's batches."""

    day: date
    upload: ColumnElement[Any]


@blueprint.get("/imports")
@require_visitor
def home() -> str:
    """Show the imports of some days, or the batches of one client on one day."""
    day = _read_day("day")
    if day is not None:
        return _show_client(ClientDay(day, _read("client"), _read("environment")))
    session, account_id, chosen = get_connection(), current_caller().account_id, read_chosen()
    until, start = _read_day("until"), None
    days = find_days(session, account_id, chosen, until)
    # Where the page continues its first day, if a link of the page before says so.
    upload = find_position(session, account_id, read_id(request.args.get("before", "")))
    if until is not None and upload is not None:
        start = Start(until, upload)
    listed = _list_imports(account_id, days, chosen, start) if days else None
    days = listed.days if listed else None
    account_audits: Sequence[OneAudit] = ()
    if days and chosen.source in ("", ACCOUNT):
        account_audits = list_account_audits(session, account_id, days, chosen)
    continued = {name: request.args[name] for name in ("until", "before") if name in request.args}
    parameters, path = {**_named(chosen), **continued}, url_for("imports.home")
    tables = read_tables(request.args, _COLUMNS, path=path, parameters=parameters)
    imports = listed.imports if listed else ()
    return render_template(
        "pages/imports/imports.html",
        tables=tables,
        lines={each.day: tables["imports"].arrange(each.lines, _IMPORT_KEYS) for each in imports},
        most_usd=max((line.spend_usd for each in imports for line in each.lines), default=0),
        chosen=chosen,
        waiting=find_waiting(session, account_id),
        spans=find_recent_spans(session, account_id),
        days=days,
        clients=tables["clients"].arrange(list_clients(session, account_id), _CLIENT_KEYS),
        future=sum_future_calls(session, account_id, utc_now().date()),
        imports=imports,
        continued=start and start.day,
        batch_lines_shown=BATCH_LINES_SHOWN,
        account_audits=tables["audits"].arrange(account_audits, _AUDIT_KEYS),
        account_audits_shown=ACCOUNT_AUDITS_SHOWN,
        pages=_page_links(listed, chosen, start) if listed else {},
        link=_client_url,
    )


@blueprint.post("/imports/spans")
@require_visitor
def import_spans() -> Any:
    """Import the calls in spans that wait, instead of within the hour."""
    session = get_session()
    request_import(session, current_caller().account_id)
    session.commit()
    return redirect(url_for("imports.home"), 303)


def _list_imports(account_id: str, days: Days, chosen: Chosen, start: Start | None) -> Listed:
    """Return the days whose lines fit on the page; the first may continue on the next one."""
    session = get_connection()
    uploads: Sequence[OneAudit] = ()
    if chosen.source in ("", UPLOAD):
        uploads = list_uploads(session, account_id, days, chosen, start and start.upload)
    crowded = uploads[UPLOADS_SHOWN].day if len(uploads) > UPLOADS_SHOWN else None
    batches: Sequence[Batches] = ()
    if chosen.source in ("", INGEST):
        # Those of a day that the page continues were on the page before.
        last = days.last if start is None else min(days.last, start.day - timedelta(days=1))
        of_days = days._replace(first=crowded or days.first, last=last)
        batches = list_batches(session, account_id, of_days, chosen)
    cut = batches[BATCH_LINES_SHOWN].day if len(batches) > BATCH_LINES_SHOWN else None
    ends = [day for day in (crowded, cut) if day is not None]
    batches, uploads = batches[:BATCH_LINES_SHOWN], uploads[:UPLOADS_SHOWN]
    found = sorted({each.day for each in batches} | {each.day for each in uploads}, reverse=True)
    # Lines of later days than the first that doesn't fit are all there.
    shown = [day for day in found if not ends or day > max(ends)] or found[:1]
    imports = [
        DayOfImports(
            day,
            [line for line in batches if line.day == day],
            [line for line in uploads if line.day == day],
            has_more_batches=day == cut,
            has_more_uploads=day == crowded,
        )
        for day in shown
    ]
    if not ends:
        return Listed(days, imports)
    if shown[-1] == crowded:
        return Listed(days._replace(first=crowded), imports, uploads[-1].id)
    rest = find_days(session, account_id, chosen, shown[-1] - timedelta(days=1))
    return Listed(days._replace(first=shown[-1], older=rest and rest.last), imports)


def _show_client(client_day: ClientDay) -> str:
    chosen, query = read_chosen(), request.args
    filters = PageFilter(
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


def _page_links(listed: Listed, chosen: Chosen, start: Start | None) -> Mapping[str, str]:
    days = listed.days
    newer = start.day if start else days.newer
    links = {}
    if newer is not None:
        links["newer"] = _page_url(newer, chosen)
    if listed.last_upload:
        links["older"] = _page_url(days.first, chosen, before=listed.last_upload)
    elif days.older is not None:
        links["older"] = _page_url(days.older, chosen)
    return links


def _page_url(until: date, chosen: Chosen, **more: str) -> str:
    return f"/imports?{urlencode({**_named(chosen), 'until': until.isoformat(), **more})}"


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
