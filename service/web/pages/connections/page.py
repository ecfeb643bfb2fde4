"""/settings/connections: the providers whose reports we pull, and how the pulls went."""

from datetime import timedelta
from typing import Any, Final

from flask import redirect, render_template, request, url_for
from werkzeug import Response

from service.connections import list_providers
from service.connections.provider import ACTIVITY, Provider
from service.errors import NotFoundError
from service.models.base import utc_now
from service.models.connections.activity import sum_by_model, sum_by_person
from service.models.connections.connections import (
    MAX_CONNECTIONS,
    ProviderConnection,
    compare_soon,
    find_connection,
    list_connections,
    pull_soon,
)
from service.models.connections.failures import explain
from service.models.connections.reported import forget_names, forget_people, list_pulls
from service.models.identity.security_events import EventKind
from service.operations.connections.connecting import (
    KeyRefusedError,
    connect,
    describe_sight,
    disconnect,
    find_provider,
    try_key,
    use_key,
)
from service.operations.connections.plan import without
from service.web.auth.callers import current_caller, limit_by_caller
from service.web.auth.recent_sign_in import require_recent_sign_in
from service.web.auth.security_events import record_event
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import current_config, current_queues, get_session
from service.web.http.limits import limiter, per_minute
from service.web.schemas.labels import read_label

# A key is tried with requests to a provider.
_LIMIT: Final = per_minute("magic_link_limit_per_minute")
_NOT_FOUND: Final = "Not found. It may already be removed."
_OFF: Final = "Connections are turned off in this installation."
_ACTIVE_DAYS: Final = 30
_SHOWN: Final = 50
OUTCOMES: Final = {
    **{"done": "Done", "empty": "Nothing to pull", "throttled": "Asked to wait"},
    "uploaded": "Uploaded",
}

blueprint = PrivatePages("connections", __name__, url_prefix="/settings/connections")


@blueprint.get("")
@require_visitor
def home() -> str:
    found = list_connections(get_session(), current_caller().account_id)
    return render_template(
        "pages/connections/home.html",
        rows=[
            (each, _provider(each), describe_sight(each.sight), _explain(each)) for each in found
        ],
        providers=list_providers().values(),
        is_on=current_config().connections == "on",
        most=MAX_CONNECTIONS,
        is_saved="saved" in request.args,
    )


@blueprint.get("/add")
@require_visitor
@require_recent_sign_in()
def ask_to_add() -> str:
    return _show_form(request.args.get("provider", ""))


@blueprint.post("/add")
@limiter.limit(_LIMIT, key_func=limit_by_caller)
@require_visitor
@require_recent_sign_in("connections.ask_to_add")
def add() -> str | Response | tuple[str, int]:
    """Try a key and connect its organization."""
    session, account_id = get_session(), current_caller().account_id
    name, key = request.form.get("provider", ""), request.form.get("key", "").strip()
    provider = find_provider(current_config(), name)
    if provider is None:
        return _show_form(name, "Choose a provider."), 422
    try:
        session.commit()  # the pool's connection must not wait for a provider
        sight = try_key(current_config(), provider, key)
        more = {"label": read_label(request.form), "keeps_names": "names" in request.form}
        connection = connect(session, account_id, provider, key, sight, **more)
    except KeyRefusedError as error:
        return _show_form(name, str(error)), 422
    record_event(EventKind.CONNECTION_ADDED, account_id, provider=name)
    session.commit()
    current_queues().enqueue_pull(connection.id)
    return redirect(url_for("connections.show", connection_id=connection.id), 303)


@blueprint.get("/<connection_id>")
@require_visitor
def show(connection_id: str) -> str:
    return _show(_find(connection_id))


@blueprint.post("/<connection_id>/key")
@limiter.limit(_LIMIT, key_func=limit_by_caller)
@require_visitor
@require_recent_sign_in("connections.show")
def change_key(connection_id: str) -> str | Response | tuple[str, int]:
    """Try another key and use it from now on."""
    session, connection = get_session(), _find(connection_id)
    provider = find_provider(current_config(), connection.provider)
    if provider is None or connection.is_by_hand:
        return _show(connection, _OFF), 422
    try:
        session.commit()
        key = request.form.get("key", "").strip()
        use_key(session, connection, provider, key, try_key(current_config(), provider, key))
    except KeyRefusedError as error:
        return _show(connection, str(error)), 422
    account_id = connection.account_id
    record_event(EventKind.CONNECTION_KEY_REPLACED, account_id, provider=connection.provider)
    session.commit()
    current_queues().enqueue_pull(connection.id)
    return redirect(url_for("connections.home", saved=""), 303)


@blueprint.post("/<connection_id>/names")
@require_visitor
def choose_names(connection_id: str) -> Response:
    """Save whether names of projects, keys and line items are stored; forget them if not."""
    connection = _find(connection_id)
    connection.keeps_names = "names" in request.form
    session = get_session()
    was_shown, connection.shows_people = connection.shows_people, "people" in request.form
    if not connection.keeps_names or (was_shown and not connection.shows_people):
        # A pull that began with the old choice can store nothing anymore.
        connection.lease_token = connection.lease_expires_at = None
        connection.next_pull_at = utc_now()
    if not connection.keeps_names:
        forget_names(session, connection.id)
        # The routes of what wasn't sent have them, too.
        compare_soon(session, connection.account_id, connection.provider)
    if not connection.shows_people:
        forget_people(session, connection.id)
    elif not was_shown and connection.is_active:
        # Only hashes of the people are known.
        reports = _provider(connection).reports
        connection.progress = without(connection.progress, reports, ACTIVITY)
        connection.next_pull_at = utc_now()
    session.commit()
    current_queues().enqueue_pull(connection.id)
    return redirect(url_for("connections.home", saved=""), 303)


@blueprint.post("/<connection_id>/pull")
@limiter.limit(_LIMIT, key_func=limit_by_caller)
@require_visitor
def pull(connection_id: str) -> Response:
    """Pull what is recent again, as soon as the provider allows."""
    connection = _find(connection_id)
    if connection.is_active:
        pull_soon(connection, _provider(connection).pause_seconds)
    get_session().commit()
    current_queues().enqueue_pull(connection.id)
    return redirect(url_for("connections.home", saved=""), 303)


@blueprint.post("/<connection_id>/remove")
@require_visitor
def remove(connection_id: str) -> Response:
    """Forget the key and, unless it is to be kept, what was pulled."""
    session, connection = get_session(), _find(connection_id)
    account_id, provider = connection.account_id, connection.provider
    keep = request.form.get("data") == "keep" and not connection.is_by_hand
    disconnect(session, connection, keep=keep)
    record_event(EventKind.CONNECTION_REMOVED, account_id, provider=provider)
    session.commit()
    return redirect(url_for("connections.home", saved=""), 303)


def _find(connection_id: str) -> ProviderConnection:
    found = find_connection(get_session(), current_caller().account_id, connection_id)
    if found is None:
        raise NotFoundError(_NOT_FOUND)
    return found


def _provider(connection: ProviderConnection) -> Provider:
    return list_providers()[connection.provider]


def _explain(connection: ProviderConnection) -> tuple[str, str] | None:
    return explain(connection.error) if connection.error else None


def _show_form(chosen: str, problem: str = "") -> str:
    return render_template(
        "pages/connections/add.html",
        providers=list_providers().values(),
        chosen=chosen,
        label=request.form.get("label", ""),
        names="names" in request.form or request.method == "GET",
        problem=problem,
        is_on=current_config().connections == "on",
    )


def _show(connection: ProviderConnection, problem: str = "") -> str:
    session, account_id = get_session(), current_caller().account_id
    pulls: Any = list_pulls(session, account_id, connection.id)
    since = utc_now().date() - timedelta(days=_ACTIVE_DAYS - 1)
    mine = (account_id, connection.id, since, _SHOWN)
    return render_template(
        "pages/connections/connection.html",
        connection=connection,
        provider=_provider(connection),
        sight=describe_sight(connection.sight),
        failure=_explain(connection),
        pulls=[(each, OUTCOMES.get(each.outcome) or explain(each.outcome)[0]) for each in pulls],
        has_activity=any(each.kind == ACTIVITY for each in _provider(connection).reports),
        people=sum_by_person(session, *mine),
        models=sum_by_model(session, *mine),
        days=_ACTIVE_DAYS,
        problem=problem,
    )
