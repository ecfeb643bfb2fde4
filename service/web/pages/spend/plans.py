"""/plan-usage: what plans include, by tool, project and person, beside what they cost."""

from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Final

from flask import redirect, render_template, request, url_for
from werkzeug import Response

from service.errors import InvalidRequestError, NotFoundError
from service.models.calls.plans import MAX_PLANS, Plan, PlanLimitError, add_plan, remove_plan
from service.operations.plan_worth import report_plans
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, current_days, require_visitor
from service.web.http.current import get_connection, get_session
from service.web.pages.spend.query import read_query
from service.web.schemas.spend import find_day

TOOLS: Final = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "chatgpt": "ChatGPT",
    "cursor": "Cursor",
    "github-copilot": "GitHub Copilot",
    "opencode-go": "opencode Go",
    "zai-coding-plan": "Z.ai coding plan",
    "kimi-for-coding": "Kimi for Coding",
    "minimax-coding-plan": "MiniMax coding plan",
    "alibaba-coding-plan": "Alibaba coding plan",
}
_MAX_PRICE: Final = Decimal(1_000_000)
_MAX_SEATS: Final = 100_000
_MAX_NAME: Final = 60

blueprint = PrivatePages("plan_usage", __name__, url_prefix="/plan-usage")


@blueprint.get("")
@require_visitor
def home() -> str:
    return _show()


@blueprint.post("/plans")
@require_visitor
def add() -> str | Response | tuple[str, int]:
    """Add a plan."""
    try:
        add_plan(get_session(), _read_plan())
    except InvalidRequestError as error:
        return _show(str(error)), 422
    except PlanLimitError:
        return _show(f"You have {MAX_PLANS} plans. Remove one to add another."), 422
    return _saved()


@blueprint.post("/plans/<plan_id>/remove")
@require_visitor
def remove(plan_id: str) -> Response:
    """Remove a plan."""
    if not remove_plan(get_session(), current_caller().account_id, plan_id):
        raise NotFoundError("Not found. It may already be removed.")
    return _saved()


def _saved() -> Response:
    get_session().commit()
    return redirect(url_for("plan_usage.home", saved=""), 303)


def _show(problem: str = "") -> str:
    query = read_query(request.args, current_days(), path="/plan-usage")
    days = query.first, query.last
    report = report_plans(get_connection(), current_caller().account_id, days, query.of)
    known = [each.name for each in report.providers]
    return render_template(
        "pages/spend/plans.html",
        query=query,
        report=report,
        today=query.of.today(),
        tools=TOOLS,
        choices=[(name, TOOLS.get(name, name)) for name in dict.fromkeys([*known, *TOOLS])],
        form=request.form,
        problem=problem,
        is_saved="saved" in request.args,
    )


def _read_plan() -> Plan:
    name = "".join(char for char in request.form.get("name", "") if char.isprintable()).strip()
    provider = request.form.get("provider", "").strip()
    if not 0 < len(name) <= _MAX_NAME:
        raise InvalidRequestError(f"Enter a name of at most {_MAX_NAME} characters.")
    if not 0 < len(provider) <= _MAX_NAME or not provider.isprintable():
        raise InvalidRequestError("Choose the tool that the plan is of.")
    first = _read_day("paid_from")
    if first is None:
        raise InvalidRequestError("Enter the day from which you pay.")
    last = _read_day("until")
    if last is not None and last < first:
        raise InvalidRequestError("The last day must not be before the first.")
    return Plan(
        account_id=current_caller().account_id,
        name=name,
        provider=provider,
        price_usd=_read_price(),
        seats=_read_seats(),
        first_day=first,
        last_day=last,
    )


def _read_day(name: str) -> date | None:
    text = request.form.get(name, "").strip()
    day = find_day(text)
    if text and day is None:
        raise InvalidRequestError("Enter days from 2000 to 2100.")
    return day


def _read_price() -> Decimal:
    text = request.form.get("price", "").strip().removeprefix("$").replace(",", "")
    try:
        price = Decimal(text)
    except InvalidOperation:
        price = Decimal("NaN")
    if not (price.is_finite() and 0 <= price <= _MAX_PRICE):
        raise InvalidRequestError("Enter a price in dollars, for example 100 or 1,250.00.")
    return price.quantize(Decimal("0.01"))


def _read_seats() -> int:
    text = request.form.get("seats", "").strip()
    seats = int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0
    if not 0 < seats <= _MAX_SEATS:
        raise InvalidRequestError("Enter a number of seats, such as 1.")
    return seats
