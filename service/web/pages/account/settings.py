"""/settings: email notifications, tags of traces, active sessions and account deletion."""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from flask import redirect, render_template, request, url_for
from werkzeug import Response

from service.core.time_zones import UTC_NAME, list_zones
from service.errors import InvalidRequestError, NotFoundError
from service.mail.addresses import find_address
from service.models.calls.account_days import has_purged_days
from service.models.identity.accounts import COMP, REPORT_MAILS, get_account
from service.models.identity.security_events import EventKind
from service.models.identity.sign_in import (
    WebSession,
    end_other_sessions,
    end_session,
    list_sessions,
)
from service.models.imports.span_notices import find_recent_spans
from service.models.mail.report_mails import MAILS_A_DAY, choose_report_mails
from service.models.operations.stored_data import find_stored_data
from service.models.watching.watches import judge_again
from service.operations.maintenance.account_deletion import erase_account
from service.web.auth import web_sessions
from service.web.auth.browsers import describe_browser
from service.web.auth.callers import current_caller
from service.web.auth.recent_sign_in import require_recent_sign_in
from service.web.auth.security_events import count_event, record_event
from service.web.auth.visitors import PrivatePages, current_days, require_visitor
from service.web.http.current import current_blobs, current_config, current_queues, get_session
from service.web.otlp.requests import MAX_ATTRIBUTE_NAME, is_label_attribute
from service.web.pages.tables import Column, read_tables
from service.web.schemas.labels import MAX_LENGTH, read_label

_SPEND_MAILS: Final = {"daily": True, "none": False}


class SessionRow(NamedTuple):
    """A session, and the name of its browser."""

    session: WebSession
    browser: str


_SESSIONS: Final = (
    Column("browser", "Browser"),
    Column("first", "First seen", is_time=True),
    Column("last", "Last seen", is_time=True),
    Column("out", "Sign out", is_sortable=False),
)
_SESSION_KEYS: Final[Mapping[str, Callable[[SessionRow], Any]]] = {
    "browser": lambda each: each.browser.casefold(),
    "first": lambda each: each.session.created_at,
    "last": lambda each: each.session.last_seen_at,
}

blueprint = PrivatePages("settings", __name__, url_prefix="/settings")


@blueprint.get("")
@require_visitor
def home() -> str:
    session, config = get_session(), current_config()
    account = get_account(session, current_caller().account_id)
    return render_template(
        "pages/account/settings.html",
        account=account,
        spans=find_recent_spans(session, account.id),
        is_saved="saved" in request.args,
        zones=list_zones(),
        of=current_days(),
        loses_days=has_purged_days(session, account.id),
        max_name=MAX_LENGTH,
        max_attribute=MAX_ATTRIBUTE_NAME,
        mails_a_day=MAILS_A_DAY,
        stored=find_stored_data(session, account.id),
        report_days=config.report_retention_days,
        raw_days=config.raw_retention_days,
        call_days=config.call_retention_days,
        spend_days=config.rollup_retention_days,
    )


@blueprint.post("/profile")
@require_visitor
def save_profile() -> Response:
    """Save the name on reports and the time zone of pages and emails.

    With another zone, the account's calls are counted again by its days.
    """
    zone = request.form.get("time_zone", "")
    if zone not in list_zones():
        raise InvalidRequestError("Choose a time zone from the list.")
    account = get_account(get_session(), current_caller().account_id)
    account.name = read_label(request.form, "name")
    before, account.time_zone = account.time_zone, None if zone == UTC_NAME else zone
    has_changed = account.time_zone != before
    if has_changed:
        judge_again(get_session().connection(), account.id)
    get_session().commit()
    if has_changed:  # the sweeper would notice, too, but later
        current_queues().enqueue_compaction(current_caller().account_id)
    return redirect(url_for("settings.home", saved=""), 303)


@blueprint.post("/report-mails")
@require_visitor
def choose_mails() -> Response:
    """Save how often the account gets emails about reports."""
    choice = request.form.get("report_mails", "")
    if choice not in REPORT_MAILS:
        raise InvalidRequestError("Choose one of the options.")
    choose_report_mails(get_session(), current_caller().account_id, choice)
    get_session().commit()
    return redirect(url_for("settings.home", saved=""), 303)


@blueprint.post("/spend-mails")
@require_visitor
def choose_spend_mails() -> Response:
    """Save whether the account gets emails about unusual days and budgets."""
    choice = request.form.get("spend_mails", "")
    if choice not in _SPEND_MAILS:
        raise InvalidRequestError("Choose one of the two options.")
    account = get_account(get_session(), current_caller().account_id)
    account.spend_mails = _SPEND_MAILS[choice]
    get_session().commit()
    return redirect(url_for("settings.home", saved=""), 303)


@blueprint.post("/tag-attribute")
@require_visitor
def choose_tag_attribute() -> Response:
    """Save the attribute that is the tag of calls in OpenTelemetry spans."""
    name = request.form.get("tag_attribute", "").strip()
    if name and not is_label_attribute(name):
        raise InvalidRequestError(
            f"Enter the name of an attribute that holds a label, in at most {MAX_ATTRIBUTE_NAME}"
            " characters."
        )
    account = get_account(get_session(), current_caller().account_id)
    account.tag_attribute = name or None
    get_session().commit()
    return redirect(url_for("settings.home", saved=""), 303)


@blueprint.get("/delete")
@require_visitor
@require_recent_sign_in()
def ask_to_delete() -> str:
    return _show_deletion()


@blueprint.post("/delete")
@require_visitor
@require_recent_sign_in("settings.ask_to_delete")
def delete() -> Any:
    """Delete the account if the typed email address matches."""
    caller = current_caller()
    typed = find_address(request.form.get("email", "")) or ""
    if not secrets.compare_digest(typed.encode(), caller.email.encode()):
        return _show_deletion(problem="This isn't your account's email address."), 422
    erase_account(
        get_session(),
        current_blobs(),
        account_id=caller.account_id,
        email=caller.email,
        session_id=caller.credential_id,
        outbox=current_config().mail_folder,
    )
    count_event(EventKind.ACCOUNT_DELETED, caller.account_id)
    web_sessions.forget()
    return redirect(url_for("public.deleted"), 303)


@blueprint.get("/sessions")
@require_visitor
def sessions() -> str:
    caller, idle_days = current_caller(), current_config().session_idle_days
    found = list_sessions(get_session(), caller.account_id, idle_days)
    path = url_for("settings.sessions")
    table = read_tables(request.args, {"sessions": _SESSIONS}, path=path, parameters={})["sessions"]
    rows = [SessionRow(session, describe_browser(session.user_agent)) for session in found]
    return render_template(
        "pages/account/sessions.html",
        table=table,
        rows=table.arrange(rows, _SESSION_KEYS),
        caller=caller,
    )


@blueprint.post("/sessions/<session_id>/revoke")
@require_visitor
def revoke(session_id: str) -> Response:
    """Sign out one session, possibly the current session."""
    if not end_session(get_session(), current_caller().account_id, session_id):
        raise NotFoundError("This session doesn't exist or has already ended.")
    record_event(EventKind.SESSION_ENDED, current_caller().account_id)
    get_session().commit()
    return _back()


@blueprint.post("/sessions/revoke-others")
@require_visitor
def revoke_others() -> Response:
    """Sign out all sessions but the current session."""
    caller = current_caller()
    end_other_sessions(get_session(), caller.account_id, caller.credential_id)
    record_event(EventKind.SESSION_ENDED, caller.account_id, others=True)
    get_session().commit()
    return _back()


def _show_deletion(problem: str = "") -> str:
    account = get_account(get_session(), current_caller().account_id)
    running = [row for row in account.subscriptions if row.is_active and row.provider != COMP]
    return render_template(
        "pages/account/delete_account.html", account=account, running=running, problem=problem
    )


def _back() -> Response:
    return redirect(url_for("settings.sessions"), 303)
