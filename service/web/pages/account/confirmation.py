"""/sign-in/confirm: confirm that it's you, with a link that comes back to where you were."""

from flask import redirect, render_template, request
from werkzeug import Response

from service.web.auth.callers import current_caller
from service.web.auth.recent_sign_in import RECENT, is_recent
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.auth.web_sessions import find_web_session
from service.web.http.current import current_config
from service.web.schemas.local_paths import find_local_path

blueprint = PrivatePages("confirmation", __name__)


@blueprint.get("/sign-in/confirm")
@require_visitor
def ask() -> str | Response:
    config, known = current_config(), find_web_session()
    onward = find_local_path(request.args.get("next")) or "/dashboard"
    if known is not None and is_recent(known):
        return redirect(onward, 303)
    return render_template(
        "pages/account/confirm.html",
        onward=onward,
        email=current_caller().email,
        recent_minutes=int(RECENT.total_seconds() // 60),
        minutes=config.magic_link_minutes,
        outbox=config.local_outbox,
    )
