"""/developer/applications: the OAuth applications of an account."""

from typing import Any, Final

from flask import redirect, render_template, request, url_for
from werkzeug import Response

from service.errors import InvalidRequestError, NotFoundError
from service.models.access.oauth import (
    MAX_APPLICATIONS,
    ApplicationLimitError,
    OAuthApplication,
    add_application,
    find_own_application,
    list_applications,
    revoke_application,
)
from service.models.identity.security_events import EventKind
from service.web.auth.callers import current_caller
from service.web.auth.recent_sign_in import require_recent_sign_in
from service.web.auth.security_events import record_event
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import current_config, get_session
from service.web.oauth.redirects import check_redirect_uris
from service.web.schemas.labels import read_label

_FIELDS: Final = ("name", "redirect_uris")

blueprint = PrivatePages("applications", __name__, url_prefix="/developer/applications")


@blueprint.get("")
@require_visitor
def home() -> str:
    return _show()


@blueprint.post("")
@require_visitor
@require_recent_sign_in("applications.home", anchor="register", kept=_FIELDS)
def register() -> Any:
    """Register an application and show its secret, once."""
    session = get_session()
    try:
        name, redirect_uris = _read_form()
        row, secret = add_application(
            session, current_caller().account_id, name=name, redirect_uris=redirect_uris
        )
    except InvalidRequestError as error:
        return _show(error.message), 422
    except ApplicationLimitError:
        problem = f"You can have up to {MAX_APPLICATIONS} applications. Delete one first."
        return _show(problem), 422
    record_event(EventKind.APPLICATION_CREATED, row.account_id, prefix=row.prefix)
    session.commit()
    return _show_secret(row, secret)


@blueprint.get("/<application_id>")
@require_visitor
def show(application_id: str) -> str:
    return _show_one(_get(application_id))


@blueprint.post("/<application_id>")
@require_visitor
@require_recent_sign_in("applications.show", anchor="change", kept=_FIELDS)
def change(application_id: str) -> Any:
    """Change an application's name and redirect URIs."""
    application = _get(application_id)
    try:
        application.name, application.redirect_uris = _read_form()
    except InvalidRequestError as error:
        get_session().rollback()
        return _show_one(_get(application_id), error.message), 422
    record_event(EventKind.APPLICATION_CHANGED, application.account_id, prefix=application.prefix)
    get_session().commit()
    return redirect(url_for("applications.show", application_id=application.id), 303)


@blueprint.post("/<application_id>/rotate-secret")
@require_visitor
@require_recent_sign_in("applications.show", anchor="secret")
def rotate_secret(application_id: str) -> Any:
    """Replace the client secret immediately; tokens stay valid."""
    application = _get(application_id)
    secret = application.rotate_secret()
    record_event(
        EventKind.APPLICATION_SECRET_ROTATED, application.account_id, prefix=application.prefix
    )
    get_session().commit()
    return _show_secret(application, secret)


@blueprint.post("/<application_id>/revoke")
@require_visitor
def revoke(application_id: str) -> Response:
    """Delete the application, its secret and all its tokens."""
    account_id = current_caller().account_id
    prefix = revoke_application(get_session(), account_id, application_id)
    if prefix is None:
        raise NotFoundError("Application not found. It may already be deleted.")
    record_event(EventKind.APPLICATION_DELETED, account_id, prefix=prefix)
    get_session().commit()
    return redirect(url_for("applications.home"), 303)


def _get(application_id: str) -> OAuthApplication:
    session, account_id = get_session(), current_caller().account_id
    application = find_own_application(session, account_id, application_id)
    if application is None:
        raise NotFoundError("Application not found. It may already be deleted.")
    return application


def _read_form() -> tuple[str, list[str]]:
    name = read_label(request.form, "name")
    if not name:
        raise InvalidRequestError("Enter a name for the application.")
    return name, check_redirect_uris(request.form.get("redirect_uris", ""))


def _show(problem: str = "") -> str:
    session, account_id = get_session(), current_caller().account_id
    session.rollback()  # release locks of a rejected form
    return render_template(
        "pages/developer/applications.html",
        applications=list_applications(session, account_id),
        base_url=current_config().base_url,
        problem=problem,
        typed=request.form or request.args,
    )


def _show_one(application: OAuthApplication, problem: str = "") -> str:
    return render_template(
        "pages/developer/application.html",
        application=application,
        problem=problem,
        typed=request.form or request.args,
    )


def _show_secret(application: OAuthApplication, secret: str) -> str:
    return render_template(
        "pages/developer/application_secret.html",
        application=application,
        secret=secret,
        base_url=current_config().base_url,
    )
