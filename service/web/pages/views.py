"""/views: save a page with its filters, range and order under a name, and remove it."""

from typing import Final
from urllib.parse import parse_qsl, urlencode

from flask import redirect, request
from werkzeug import Response

from service.errors import InvalidRequestError, NotFoundError
from service.models.operations.saved_views import MAX_NAME, MAX_VIEWS, remove_view, save_view
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import get_session

PAGES: Final = ("/spend", "/findings")
_MOST_CHARACTERS: Final = 2_000

blueprint = PrivatePages("saved_views", __name__, url_prefix="/views")


@blueprint.post("")
@require_visitor
def save() -> Response:
    page, name = request.form.get("page", ""), request.form.get("name", "").strip()
    query = urlencode(parse_qsl(request.form.get("query", ""), keep_blank_values=True))
    if page not in PAGES or len(query) > _MOST_CHARACTERS or "%00" in query:
        raise InvalidRequestError("This view can't be saved.")
    if not 0 < len(name) <= MAX_NAME or not name.isprintable():
        raise InvalidRequestError(f"Enter a name of at most {MAX_NAME} characters.")
    session = get_session()
    if not save_view(session, current_caller().account_id, page, name, query):
        raise InvalidRequestError(f"You can have up to {MAX_VIEWS} views. Remove one first.")
    session.commit()
    return redirect(f"{page}?{query}" if query else page, 303)


@blueprint.post("/<view_id>/remove")
@require_visitor
def remove(view_id: str) -> Response:
    session = get_session()
    if not remove_view(session, current_caller().account_id, view_id):
        raise NotFoundError("Not found. It may already be removed.")
    session.commit()
    return redirect("/spend" if "/spend" in (request.referrer or "") else "/findings", 303)
