"""/imports/future: calls dated after today, and how to delete them."""

from datetime import date
from typing import Final

from flask import redirect, render_template, request, url_for
from werkzeug import Response

from service.errors import InvalidRequestError
from service.models.base import utc_now
from service.models.calls.future_calls import (
    MOST_LINES,
    delete_future_calls,
    is_deleting,
    list_future_calls,
    sum_future_calls,
)
from service.models.identity.security_events import EventKind
from service.web.auth.callers import current_caller
from service.web.auth.security_events import record_event
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import current_queues, get_session
from service.web.pages.spend.charts import UNNAMED
from service.web.schemas.spend import find_day

_DAY_EXPECTED: Final = "Choose a day from the list."

blueprint = PrivatePages("imports_future", __name__, url_prefix="/imports/future")


@blueprint.get("")
@require_visitor
def home() -> str:
    session, account_id, today = get_session(), current_caller().account_id, utc_now().date()
    return render_template(
        "pages/imports/future.html",
        future=sum_future_calls(session, account_id, today),
        lines=list_future_calls(session, account_id, today),
        most_lines=MOST_LINES,
        is_deleting=is_deleting(session, account_id),
        deleted=request.args.get("deleted", type=int),
        unnamed=UNNAMED,
    )


@blueprint.post("/delete")
@require_visitor
def delete() -> Response:
    """Delete the calls of one day after today, or all of them."""
    text = request.form.get("day", "")
    day = find_day(text)
    if text and day is None:
        raise InvalidRequestError(_DAY_EXPECTED)
    session, account_id = get_session(), current_caller().account_id
    days = (day, day) if day else (date.min, date.max)
    calls = delete_future_calls(session, account_id, utc_now().date(), days)
    if calls:
        record_event(EventKind.FUTURE_CALLS_DELETED, account_id, calls=calls)
        session.commit()
        current_queues().enqueue_compaction(account_id)
    return redirect(url_for("imports_future.home", deleted=calls), 303)
