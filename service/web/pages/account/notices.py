"""/settings/notices: the webhooks and Slack channels of an account, and what was sent there."""

from collections.abc import Mapping
from typing import Any, Final

from flask import redirect, render_template, request, url_for
from werkzeug import Response

from service.errors import InvalidRequestError, NotFoundError
from service.models.identity.security_events import EventKind
from service.models.notices.deliveries import (
    list_deliveries,
    post_test,
    resend_delivery,
)
from service.models.notices.events import EVENTS
from service.models.notices.targets import (
    KINDS,
    MAX_TARGETS,
    SLACK,
    WEBHOOK,
    NewTarget,
    TargetLimitError,
    add_target,
    enable_target,
    find_target,
    list_targets,
    remove_target,
)
from service.notices.urls import InvalidTargetError, check_target
from service.web.auth.callers import current_caller, limit_by_caller
from service.web.auth.recent_sign_in import require_recent_sign_in
from service.web.auth.security_events import record_event
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import current_config, current_queues, get_session
from service.web.http.limits import limiter, per_minute
from service.web.schemas.labels import read_label

KIND_WORDS: Final[Mapping[str, str]] = {WEBHOOK: "Webhook", SLACK: "Slack channel"}
_ERROR_WORDS: Final[Mapping[str, str]] = {
    "InvalidTargetError": "URL not accepted",
    "PrivateTargetError": "Host isn't on the public internet",
    "RedirectError": "Redirected, which we don't follow",
    "ResponseError": "Not an HTTP response",
    "SSLCertVerificationError": "Certificate not valid",
    "SSLError": "No TLS connection",
    "TimeoutError": "No response in time",
    "gaierror": "Host not found",
    "given up": "Gave up after 24 hours",
    "target disabled": "Not sent: disabled",
}
_LIMIT: Final = per_minute("notice_limit_per_minute")
_NO_TARGET: Final = "Not found. It may already be removed."
_TEST: Final = {"summary": "This is a test. Notices from Tallystick arrive here."}

blueprint = PrivatePages("notices", __name__, url_prefix="/settings/notices")


@blueprint.get("")
@require_visitor
def home() -> str:
    session, account_id = get_session(), current_caller().account_id
    rows = []
    for each in list_deliveries(session, account_id):
        # The last response, or what happened instead of one.
        said = str(each.status_code or "")
        if each.error is not None and each.error not in ("RejectedError", "GoneError"):
            words = _ERROR_WORDS.get(each.error, "Couldn't connect")
            said = f"{words} ({said})" if said else words
        rows.append((each, each.target, said))
    return render_template(
        "pages/notices/home.html",
        targets=list_targets(session, account_id),
        rows=rows,
        kinds=KIND_WORDS,
        max_targets=MAX_TARGETS,
        is_sent="sent" in request.args,
    )


@blueprint.get("/add")
@require_visitor
@require_recent_sign_in()
def ask_to_add() -> str:
    return _show_form()


@blueprint.post("/add")
@limiter.limit(_LIMIT, key_func=limit_by_caller)
@require_visitor
@require_recent_sign_in("notices.ask_to_add")
def add() -> str | Response | tuple[str, int]:
    """Add a target; the signing secret of a webhook is shown once."""
    session, account_id = get_session(), current_caller().account_id
    try:
        kind, url = request.form.get("kind", ""), request.form.get("url", "").strip()
        events = [event for event in request.form.getlist("event") if event in EVENTS]
        if kind not in KINDS:
            raise InvalidRequestError("Choose a webhook or Slack.")
        if not events:
            raise InvalidRequestError("Choose at least one event.")
        new = NewTarget(kind, url, events, read_label(request.form))
        # The pool's connection must not wait for a resolver.
        session.commit()
        check_target(new.kind, new.url, allows_private=current_config().allows_private_targets)
        target = add_target(session, account_id, new)
    except (InvalidTargetError, InvalidRequestError) as error:
        return _show_form(str(error)), 422
    except TargetLimitError:
        return _show_form(f"You have {MAX_TARGETS} already. Remove one to add another."), 422
    record_event(EventKind.TARGET_ADDED, account_id)
    session.commit()
    if new.kind == SLACK:
        return redirect(url_for("notices.home"), 303)
    return render_template("pages/notices/secret.html", target=target)


@blueprint.post("/<target_id>/test")
@limiter.limit(_LIMIT, key_func=limit_by_caller)
@require_visitor
def send_test(target_id: str) -> Response:
    """Send a test notice to a target that is enabled."""
    session = get_session()
    target = find_target(session, current_caller().account_id, target_id)
    if target is None or target.disabled_at is not None:
        raise NotFoundError(_NO_TARGET)
    delivery_ids = post_test(session, target, _TEST)
    session.commit()
    current_queues().enqueue_notices(delivery_ids)
    return redirect(url_for("notices.home", sent=""), 303)


@blueprint.post("/<target_id>/enable")
@require_visitor
def enable(target_id: str) -> Response:
    """Enable a target again that was disabled because it failed."""
    account_id = current_caller().account_id
    if not enable_target(get_session(), account_id, target_id):
        raise NotFoundError(_NO_TARGET)
    return _record(EventKind.TARGET_ENABLED, account_id)


@blueprint.post("/<target_id>/remove")
@require_visitor
def remove(target_id: str) -> Response:
    """Remove a target with its deliveries."""
    account_id = current_caller().account_id
    if not remove_target(get_session(), account_id, target_id):
        raise NotFoundError(_NO_TARGET)
    return _record(EventKind.TARGET_REMOVED, account_id)


@blueprint.post("/deliveries/<delivery_id>/resend")
@limiter.limit(_LIMIT, key_func=limit_by_caller)
@require_visitor
def resend(delivery_id: str) -> Response:
    """Send a notice again, under the same ID."""
    session = get_session()
    if not resend_delivery(session, current_caller().account_id, delivery_id):
        raise NotFoundError(_NO_TARGET)
    session.commit()
    current_queues().enqueue_notices([delivery_id])
    return redirect(url_for("notices.home", sent=""), 303)


def _record(kind: EventKind, account_id: str) -> Response:
    record_event(kind, account_id)
    get_session().commit()
    return redirect(url_for("notices.home"), 303)


def _show_form(problem: str = "") -> str:
    typed: Any = request.form
    return render_template(
        "pages/notices/add.html",
        kinds=KIND_WORDS,
        events=EVENTS,
        chosen=typed.getlist("event") if typed else list(EVENTS),
        typed=typed,
        problem=problem,
    )
