"""/settings/prices: an account's aliases and negotiated rates, as one TOML file."""

from typing import Any, Final

from flask import Response, redirect, render_template, request, url_for

from detectors.errors import PriceTermsError
from service.models.audits.audit_settings import (
    count_excluded,
    find_settings,
    save_price_terms,
)
from service.operations.price_book import load_prices
from service.operations.price_terms import (
    MAX_CHARACTERS,
    Named,
    add_price,
    list_excluded,
    write_terms,
)
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, require_visitor
from service.web.http.current import get_session

_MAX_NAME: Final = 200
_FIELDS: Final = ("provider", "model", "as_provider", "as_model", "input_mtok", "output_mtok")

blueprint = PrivatePages("prices", __name__, url_prefix="/settings/prices")


@blueprint.get("")
@require_visitor
def home() -> str:
    session, account_id = get_session(), current_caller().account_id
    return _show(
        _stored(),
        _named(request.args),
        is_saved="saved" in request.args,
        lost=count_excluded(session, account_id),
        excluded=list_excluded(session.connection(), _stored()),
    )


@blueprint.post("")
@require_visitor
def save() -> Any:
    """Save the file that was typed or, if there is one, the file that was chosen."""
    file = request.files.get("file")
    terms = request.form.get("terms", "")
    try:
        if file is not None and file.filename:
            terms = file.stream.read().decode("utf-8-sig")
        written = write_terms(load_prices(get_session().connection()), terms)
    except UnicodeDecodeError:
        return _show(terms, _named({}), problem="This file isn't UTF-8 text."), 422
    except PriceTermsError as error:
        return _show(terms, _named({}), problem=_sentence(error)), 422
    return _save(written)


@blueprint.post("/models")
@require_visitor
def add_model() -> Any:
    """Add a price for one model."""
    named = _named(request.form)
    try:
        if not named.provider or not named.model:
            raise PriceTermsError("enter the provider and the model as they appear in your logs")
        if bool(named.as_provider) != bool(named.as_model) or not (
            named.as_model or (named.input_mtok and named.output_mtok)
        ):
            raise PriceTermsError(
                "enter the provider and model to price it as, or an input and an output rate"
            )
        terms = add_price(load_prices(get_session().connection()), _stored(), named)
    except PriceTermsError as error:
        return _show(_stored(), named, model_problem=_sentence(error)), 422
    return _save(terms)


@blueprint.get("/export")
@require_visitor
def export() -> Response:
    """Download the terms as a file that the command line and the library read."""
    headers = {"Content-Disposition": 'attachment; filename="tallystick-prices.toml"'}
    return Response(_stored(), mimetype="application/toml", headers=headers)


def _save(terms: str) -> Any:
    save_price_terms(get_session(), current_caller().account_id, terms)
    get_session().commit()
    return redirect(url_for("prices.home", saved=""), 303)


def _stored() -> str:
    return find_settings(get_session(), current_caller().account_id).price_terms


def _named(given: Any) -> Named:
    return Named(**{name: given.get(name, "").strip()[:_MAX_NAME] for name in _FIELDS})


def _show(terms: str, named: Named, **said: Any) -> str:
    """Render the page with what it says of the terms, such as a `problem`."""
    prices = load_prices(get_session().connection()) if named.model else None
    near = prices.suggest(named.provider, named.model) if prices else ()
    return render_template(
        "pages/account/prices.html",
        terms=terms,
        named=named,
        near=near,
        most=MAX_CHARACTERS,
        **said,
    )


def _sentence(error: PriceTermsError) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."
