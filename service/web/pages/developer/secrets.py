"""/developer: ingest keys and read tokens. Each secret is shown once, when it is created."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from flask import redirect, render_template, request, url_for
from werkzeug import Response

from service.core.tokens import make_dsn
from service.errors import InvalidRequestError, NotFoundError
from service.models.access.credentials import (
    MAX_READ_TOKENS,
    TOKEN_DAYS,
    IngestKey,
    KeyLimitError,
    ReadToken,
    RotationError,
    TokenLimitError,
    add_ingest_key,
    add_read_token,
    list_ingest_keys,
    list_read_tokens,
    revoke,
    rotate_ingest_key,
)
from service.models.base import utc_now
from service.models.identity.accounts import KEY_LIMITS, get_account
from service.models.identity.security_events import EventKind
from service.web.auth.callers import current_caller
from service.web.auth.recent_sign_in import require_recent_sign_in
from service.web.auth.scopes import SCOPE_WORDS, SCOPES
from service.web.auth.security_events import record_event
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import current_config, get_session
from service.web.pages.tables import Column, read_tables
from service.web.schemas.labels import read_label

# How long a replaced key works on, in hours.
OVERLAPS: Final[Mapping[str, str]] = {
    "24": "Expires in a day",
    "168": "Expires in a week",
    "1": "Expires in an hour",
    "0": "Expires now",
}
_NEVER: Final = ""
# After how many days a read token expires.
EXPIRIES: Final[Mapping[str, str]] = {
    "30": "In 30 days",
    str(TOKEN_DAYS): f"In {TOKEN_DAYS} days",
    "365": "In a year",
    _NEVER: "Never",
}

_TOKEN_FIELDS: Final = ("label", "scope", "expires_in_days")

_NAMED: Final = (Column("label", "Label"), Column("prefix", "Prefix"))
_USED: Final = (
    Column("created", "Created", is_time=True),
    Column("used", "Last used", is_time=True),
)
_SCOPES, _ROTATE, _REVOKE = (
    Column(words.lower(), words, is_sortable=False) for words in ("Scopes", "Rotate", "Revoke")
)
_KEYS: Final[Mapping[str, Callable[[IngestKey | ReadToken], Any]]] = {
    "label": lambda row: row.label.casefold() or None,
    "prefix": lambda row: row.prefix,
    "created": lambda row: row.created_at,
    "used": lambda row: row.last_used_at,
}

blueprint = PrivatePages("developer", __name__, url_prefix="/developer")


@blueprint.get("")
@require_visitor
def home() -> str:
    return _show()


@blueprint.post("/ingest-keys")
@require_visitor
@require_recent_sign_in("developer.home", anchor="ingest-keys", kept=("label",))
def mint_ingest_key() -> Any:
    """Create an ingest key and show it, once."""
    session = get_session()
    try:
        label = read_label(request.form)
        owner = get_account(session, current_caller().account_id)
        key, secret = add_ingest_key(session, owner, label)
    except (InvalidRequestError, KeyLimitError) as error:
        return _show(key_problem=_sentence(error)), 422
    record_event(EventKind.KEY_CREATED, owner.id, prefix=key.prefix)
    session.commit()
    return _show_key(key, secret)


@blueprint.post("/ingest-keys/<key_id>/revoke")
@require_visitor
def revoke_ingest_key(key_id: str) -> Response:
    """Revoke a key immediately."""
    return _revoke(IngestKey, key_id, EventKind.KEY_REVOKED)


@blueprint.post("/ingest-keys/<key_id>/rotate")
@require_visitor
@require_recent_sign_in("developer.home", anchor="ingest-keys")
def replace_ingest_key(key_id: str) -> Any:
    """Rotate a key: create a new key and expire the old key after the chosen time."""
    session, hours = get_session(), request.form.get("overlap_hours", "")
    if hours not in OVERLAPS:
        raise InvalidRequestError("Choose when the old key expires.")
    try:
        overlap = timedelta(hours=int(hours))
        key, secret = rotate_ingest_key(session, current_caller().account_id, key_id, overlap)
    except RotationError as error:
        return _show(key_problem=_sentence(error)), 422
    record_event(EventKind.KEY_ROTATED, key.account_id, prefix=key.prefix)
    session.commit()
    return _show_key(key, secret)


@blueprint.post("/read-tokens")
@require_visitor
@require_recent_sign_in("developer.home", anchor="read-tokens", kept=_TOKEN_FIELDS)
def mint_read_token() -> Any:
    """Create a read token and show it, once."""
    session = get_session()
    try:
        label, sent = read_label(request.form), request.form.getlist("scope")
        scopes = [scope for scope in SCOPES if scope in sent]
        if not scopes:
            raise InvalidRequestError("Select at least one scope.")
        days = request.form.get("expires_in_days", str(TOKEN_DAYS))
        if days not in EXPIRIES:
            raise InvalidRequestError("Choose one of the expiration options.")
        expires_at = None if days == _NEVER else utc_now() + timedelta(days=int(days))
        owner = get_account(session, current_caller().account_id)
        token, secret = add_read_token(session, owner, scopes, label, expires_at=expires_at)
    except InvalidRequestError as error:
        return _show(token_problem=error.message), 422
    except TokenLimitError:
        problem = f"You can have up to {MAX_READ_TOKENS} read tokens. Revoke one first."
        return _show(token_problem=problem), 422
    record_event(EventKind.TOKEN_CREATED, owner.id, prefix=token.prefix)
    session.commit()
    return render_template(
        "pages/developer/minted_token.html", token=token, secret=secret, **_examples()
    )


@blueprint.post("/read-tokens/<token_id>/revoke")
@require_visitor
def revoke_read_token(token_id: str) -> Response:
    """Revoke a token immediately."""
    return _revoke(ReadToken, token_id, EventKind.TOKEN_REVOKED)


def _show_key(key: IngestKey, secret: str) -> str:
    dsn = make_dsn(current_config().base_url, secret)
    return render_template(
        "pages/developer/minted_key.html", key=key, secret=secret, dsn=dsn, **_examples()
    )


def _show(**problems: str) -> str:
    session, account_id = get_session(), current_caller().account_id
    session.rollback()  # release locks of a rejected form
    columns = {
        "keys": (*_NAMED, *_USED, _ROTATE, _REVOKE),
        "tokens": (*_NAMED, _SCOPES, *_USED, _REVOKE),
    }
    tables = read_tables(request.args, columns, path=url_for("developer.home"), parameters={})
    owner = get_account(session, account_id)
    typed = request.form if problems else request.args  # or typed before a confirmation
    return render_template(
        "pages/developer/developer.html",
        plan=owner.plan,
        allowed=KEY_LIMITS[owner.plan],
        tables=tables,
        keys=tables["keys"].arrange(list_ingest_keys(session, account_id), _KEYS),
        tokens=tables["tokens"].arrange(list_read_tokens(session, account_id), _KEYS),
        scope_words=SCOPE_WORDS,
        problems=problems,
        overlaps=OVERLAPS,
        expiries=EXPIRIES,
        moment_now=utc_now(),
        typed={
            "form": request.args.get("typed"),
            "label": typed.get("label", ""),
            "scopes": typed.getlist("scope") if problems or "scope" in typed else SCOPES,
            "days": typed.get("expires_in_days", str(TOKEN_DAYS)),
        },
        **_examples(),
    )


def _examples() -> dict[str, str]:
    """Return the values in the example commands."""
    base = current_config().base_url
    return {"base_url": base, "now": utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")}


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def _revoke(table: type[IngestKey] | type[ReadToken], row_id: str, kind: EventKind) -> Response:
    account_id = current_caller().account_id
    prefix = revoke(get_session(), table, account_id, row_id)
    if prefix is None:
        raise NotFoundError("Not found. It may already be revoked.")
    record_event(kind, account_id, prefix=prefix)
    get_session().commit()
    return redirect(url_for("developer.home"), 303)
