"""/developer: the secrets that an account's programs use. Each is shown once, when it is minted."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug import Response

from service.core.tokens import make_dsn
from service.errors import InvalidRequestError, NotFoundError
from service.models.access.credentials import (
    MAX_READ_TOKENS,
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
from service.web.auth.callers import current_caller
from service.web.auth.scopes import SCOPE_WORDS, SCOPES
from service.web.auth.visitors import require_visitor
from service.web.http.current import current_config, get_session
from service.web.http.headers import keep_private
from service.web.schemas.labels import read_label

# How long a replaced key works on, in hours.
OVERLAPS: Final[Mapping[str, str]] = {
    "24": "after a day",
    "168": "after a week",
    "1": "after an hour",
    "0": "at once",
}
# After how many days a read token ends.
EXPIRIES: Final[Mapping[str, str]] = {
    "": "never",
    "30": "in 30 days",
    "90": "in 90 days",
    "365": "in a year",
}

blueprint = Blueprint("developer", __name__, url_prefix="/developer")
blueprint.after_request(keep_private)


@blueprint.get("")
@require_visitor
def home() -> str:
    return _show()


@blueprint.post("/ingest-keys")
@require_visitor
def mint_ingest_key() -> Any:
    """The one answer that holds the key: nothing redirects to it, and nobody sees it again."""
    session = get_session()
    try:
        label = read_label(request.form)
        owner = get_account(session, current_caller().account_id)
        key, secret = add_ingest_key(session, owner, label)
    except (InvalidRequestError, KeyLimitError) as error:
        return _show(key_problem=_sentence(error)), 422
    session.commit()
    return _show_key(key, secret)


@blueprint.post("/ingest-keys/<key_id>/revoke")
@require_visitor
def revoke_ingest_key(key_id: str) -> Response:
    """End a key at once."""
    return _revoke(IngestKey, key_id)


@blueprint.post("/ingest-keys/<key_id>/rotate")
@require_visitor
def replace_ingest_key(key_id: str) -> Any:
    """Mint a key in the place of one that works on for a while."""
    session, hours = get_session(), request.form.get("overlap_hours", "")
    if hours not in OVERLAPS:
        raise InvalidRequestError("Choose how long the former key works on.")
    try:
        overlap = timedelta(hours=int(hours))
        key, secret = rotate_ingest_key(session, current_caller().account_id, key_id, overlap)
    except RotationError as error:
        return _show(key_problem=_sentence(error)), 422
    session.commit()
    return _show_key(key, secret)


@blueprint.post("/read-tokens")
@require_visitor
def mint_read_token() -> Any:
    """The one answer that holds the token."""
    session = get_session()
    try:
        label, scopes, expires_at = read_label(request.form), _read_scopes(), _read_expiry()
        owner = get_account(session, current_caller().account_id)
        token, secret = add_read_token(session, owner, scopes, label, expires_at=expires_at)
    except InvalidRequestError as error:
        return _show(token_problem=error.message), 422
    except TokenLimitError:
        problem = f"An account has at most {MAX_READ_TOKENS} read tokens. Revoke one first."
        return _show(token_problem=problem), 422
    session.commit()
    return render_template("pages/minted_token.html", token=token, secret=secret, **_examples())


@blueprint.post("/read-tokens/<token_id>/revoke")
@require_visitor
def revoke_read_token(token_id: str) -> Response:
    """End a token at once."""
    return _revoke(ReadToken, token_id)


def _show_key(key: IngestKey, secret: str) -> str:
    dsn = make_dsn(current_config().base_url, secret)
    return render_template("pages/minted_key.html", key=key, secret=secret, dsn=dsn, **_examples())


def _show(**problems: str) -> str:
    session, account_id = get_session(), current_caller().account_id
    session.rollback()  # what a refused form has locked
    owner = get_account(session, account_id)
    return render_template(
        "pages/developer.html",
        plan=owner.plan,
        allowed=KEY_LIMITS[owner.plan],
        keys=list_ingest_keys(session, account_id),
        tokens=list_read_tokens(session, account_id),
        scope_words=SCOPE_WORDS,
        problems=problems,
        overlaps=OVERLAPS,
        expiries=EXPIRIES,
        moment_now=utc_now(),
        typed=request.form,
        chosen=request.form.getlist("scope") if problems else SCOPES,
        **_examples(),
    )


def _examples() -> dict[str, str]:
    """What the example commands are filled in with."""
    base = current_config().base_url
    return {"base_url": base, "now": utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")}


def _read_scopes() -> list[str]:
    chosen: list[str] = [scope for scope in SCOPES if scope in request.form.getlist("scope")]
    if not chosen:
        raise InvalidRequestError("Choose at least one thing that the token may read.")
    return chosen


def _read_expiry() -> datetime | None:
    days = request.form.get("expires_in_days", "")
    if days not in EXPIRIES:
        raise InvalidRequestError("Choose one of the times when the token may end.")
    return utc_now() + timedelta(days=int(days)) if days else None


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def _revoke(table: type[IngestKey] | type[ReadToken], row_id: str) -> Response:
    if not revoke(get_session(), table, current_caller().account_id, row_id):
        raise NotFoundError("Nothing of yours has this id; it may be revoked already.")
    get_session().commit()
    return redirect(url_for("developer.home"), 303)
