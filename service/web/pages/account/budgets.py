"""/settings/budgets: monthly budgets of the account and of routes, and how far they are spent."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from flask import redirect, render_template, request, url_for
from werkzeug import Response

from service.errors import InvalidRequestError, NotFoundError
from service.models.calls.future_calls import sum_future_calls
from service.models.calls.spend import BY_COST, Selection, sum_spend
from service.models.watching.budgets import (
    MAX_BUDGETS,
    BudgetLimitError,
    change_budget,
    remove_budget,
    save_budget,
)
from service.operations.watching.budgets import BudgetState, list_states
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, current_days, require_visitor
from service.web.http.current import get_session
from service.web.pages.tables import Column, read_tables

MAX_AMOUNT: Final = Decimal(1_000_000_000)
_CENT: Final = Decimal("0.01")
_SUGGESTED: Final = 200
_MAX_ROUTE: Final = 200
_NO_BUDGET: Final = "Not found. It may already be removed."
_COLUMNS: Final = (
    Column("budget", "Budget"),
    Column("spent", "Spent this month", is_number=True),
    Column("forecast", "Forecast", is_number=True),
    Column("amount", "Monthly amount", is_number=True),
    Column("remove", "Remove", is_sortable=False),
)
_KEYS: Final[Mapping[str, Callable[[BudgetState], Any]]] = {
    "budget": lambda each: (each.route or "").casefold(),
    "spent": lambda each: each.spend_usd,
    "forecast": lambda each: each.forecast_usd,
    "amount": lambda each: each.amount_usd,
}

blueprint = PrivatePages("budgets", __name__, url_prefix="/settings/budgets")


@blueprint.get("")
@require_visitor
def home() -> str:
    return _show()


@blueprint.post("")
@require_visitor
def save() -> str | Response | tuple[str, int]:
    """Add a budget, or change the amount if there is one for the route or the account."""
    try:
        route = _clean(request.form.get("route", ""))
        if len(route) > _MAX_ROUTE:
            raise InvalidRequestError(f"Use at most {_MAX_ROUTE} characters for the route.")
        save_budget(get_session(), current_caller().account_id, route or None, _read_amount())
    except InvalidRequestError as error:
        return _show(str(error)), 422
    except BudgetLimitError:
        return _show(f"You have {MAX_BUDGETS} budgets. Remove one to add another."), 422
    return _saved()


@blueprint.post("/<budget_id>")
@require_visitor
def change(budget_id: str) -> str | Response | tuple[str, int]:
    """Change the amount of a budget."""
    try:
        amount = _read_amount()
    except InvalidRequestError as error:
        return _show(str(error)), 422
    if not change_budget(get_session(), current_caller().account_id, budget_id, amount):
        raise NotFoundError(_NO_BUDGET)
    return _saved()


@blueprint.post("/<budget_id>/remove")
@require_visitor
def remove(budget_id: str) -> Response:
    """Remove a budget."""
    if not remove_budget(get_session(), current_caller().account_id, budget_id):
        raise NotFoundError(_NO_BUDGET)
    return _saved()


def _saved() -> Response:
    get_session().commit()
    return redirect(url_for("budgets.home", saved=""), 303)


def _show(problem: str = "") -> str:
    session, account_id, of = get_session(), current_caller().account_id, current_days()
    today = of.today()
    path = url_for("budgets.home")
    table = read_tables(request.args, {"budgets": _COLUMNS}, path=path, parameters={})["budgets"]
    # The most expensive routes of the last month, as suggestions.
    wanted = Selection(today - timedelta(days=30), today, keys=("route",), is_brief=True)
    spend = sum_spend(session, account_id, wanted, order=BY_COST, limit=_SUGGESTED)
    routes = [line.value for line in spend.groups]
    return render_template(
        "pages/budgets/home.html",
        table=table,
        states=table.arrange(list_states(session, account_id, today, is_local=of.is_local), _KEYS),
        future=sum_future_calls(session, account_id, today, is_local=of.is_local),
        of=of,
        routes=[route for route in routes if route and route == _clean(route)],
        today=today,
        is_saved="saved" in request.args,
        problem=problem,
        max_route=_MAX_ROUTE,
    )


def _clean(text: str) -> str:
    return "".join(char for char in text if char.isprintable()).strip()


def _read_amount() -> Decimal:
    text = request.form.get("amount", "").strip().removeprefix("$").replace(",", "")
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not (amount.is_finite() and _CENT <= amount <= MAX_AMOUNT):
        raise InvalidRequestError("Enter an amount in dollars, for example 500 or 1,250.00.")
    return amount.quantize(_CENT)
