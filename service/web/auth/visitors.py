"""Require a signed-in visitor on pages; signed-out visitors go to sign-in and back."""

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from functools import wraps
from typing import Any, Final, ParamSpec, cast

from flask import Blueprint, Flask, g, redirect, request, url_for
from markupsafe import Markup
from sqlalchemy.exc import SQLAlchemyError

from service.models.audits.audits import ACCOUNT, INGEST, UPLOAD
from service.models.calls.account_days import (
    IN_UTC,
    AccountDays,
    find_days_in,
    has_utc_days,
)
from service.models.identity.sign_in import KnownSession
from service.reports.html import moment, money
from service.web.auth.admin_gate import may_see_admin
from service.web.auth.callers import require_login
from service.web.auth.web_sessions import find_web_session
from service.web.http.current import get_connection
from service.web.http.headers import keep_private

P = ParamSpec("P")

# Figures of an account's days. Others are of audits and findings, whose days are UTC.
_BY_DAY: Final = frozenset({"spent", "forecast", "plan_value"})

SOURCE_WORDS: Final[Mapping[str, str]] = {
    UPLOAD: "Upload",
    INGEST: "API batch",
    ACCOUNT: "Account",
}


class PrivatePages(Blueprint):
    """Pages of visitors, which no cache keeps."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.after_request(keep_private)


def require_visitor(view: Callable[P, Any]) -> Callable[P, Any]:
    """Redirect signed-out visitors of a page to sign-in."""
    authenticated = require_login(view)

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> Any:
        if find_web_session() is not None:
            return authenticated(*args, **kwargs)
        # A submitted form isn't repeated after sign-in, so only GET requests are returned to.
        onward = request.full_path.rstrip("?") if request.method == "GET" else None
        return redirect(url_for("public.sign_in", next=onward), 303)

    return checked


def show_visitors(app: Flask) -> None:
    """Make the visitor available to every template."""
    app.jinja_env.filters["moment"] = lambda value: moment(value, find_zone())
    app.jinja_env.globals.update(
        find_visitor=find_visitor,
        has_utc_days=current_utc_days,
        may_see_admin=may_see_admin,
        money=_show_money,
        source_words=SOURCE_WORDS,
    )


def find_zone() -> str | None:
    """Return the time zone that the visitor has chosen."""
    visitor = find_visitor()
    return visitor.time_zone if visitor else None


def current_days() -> AccountDays:
    """Return whose days the pages of the visitor have; look it up once per request."""
    visitor = find_web_session()
    if visitor is None or visitor.time_zone is None:
        return IN_UTC
    if "account_days" not in g:
        session = get_connection()
        g.account_days = find_days_in(session, visitor.account_id, visitor.time_zone)
    return cast(AccountDays, g.account_days)


def current_utc_days(first: date, last: date) -> bool:
    """Check whether a range of the visitor has spend in UTC days alone, though others are not."""
    found = find_web_session()
    if found is None:
        return False
    return has_utc_days(get_connection(), found.account_id, current_days().zone, (first, last))


def _show_money(name: str, amount: Decimal, of: str = "", period: Any = "") -> Markup:
    """Write a figure; one of days that aren't UTC says whose they are."""
    if period and name in _BY_DAY and (zone := current_days().zone):
        ends = period if isinstance(period, tuple) else (period,)
        period = f"{'/'.join(map(str, ends))} ({zone})"
    return money(name, amount, of, period)


def find_visitor() -> KnownSession | None:
    """Return the visitor's session, if any; None while the database is unavailable.

    Error pages use it as well, including the page shown when the database is down.
    """
    try:
        return find_web_session()
    except SQLAlchemyError:
        return None
