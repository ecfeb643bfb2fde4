"""/spend/marks: note a deploy or another change on a day of the charts, and remove it."""

from typing import Final

from flask import redirect, request, url_for
from werkzeug import Response

from service.errors import InvalidRequestError, NotFoundError
from service.models.operations.chart_marks import TOO_MANY, add_mark, remove_mark
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import get_session
from service.web.schemas.labels import read_label
from service.web.schemas.spend import find_day

_EXPECTED: Final = "Enter a day from 2000 to 2100, and what changed."

blueprint = PrivatePages("chart_marks", __name__, url_prefix="/spend/marks")


@blueprint.post("")
@require_visitor
def save() -> Response:
    day, words = find_day(request.form.get("day", "")), read_label(request.form, "words")
    if day is None or not words:
        raise InvalidRequestError(_EXPECTED)
    session = get_session()
    if add_mark(session, current_caller().account_id, day, words) is None:
        raise InvalidRequestError(TOO_MANY)
    session.commit()
    return redirect(url_for("spend_page.show"), 303)


@blueprint.post("/<mark_id>/remove")
@require_visitor
def remove(mark_id: str) -> Response:
    session = get_session()
    if remove_mark(session, current_caller().account_id, mark_id) is None:
        raise NotFoundError("Not found. It may already be removed.")
    session.commit()
    return redirect(url_for("spend_page.show"), 303)
