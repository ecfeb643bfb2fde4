"""Schemas of reconciliations: the months asked for, and the response."""

import re
from datetime import date
from typing import Any, Final

from marshmallow import Schema, ValidationError, fields, validates_schema
from marshmallow.validate import Length, OneOf

from service.operations.connections.agent_totals import AgentMonth
from service.operations.connections.reconciliation import Reconciliation
from service.operations.connections.wording import summarize, summarize_agent
from service.web.schemas.ingest import described, required

MAX_MONTHS: Final = 24
DAY, MODEL, PROJECT = LINES = ("day", "model", "project")
_MONTH: Final = re.compile(r"(20\d\d)-(0[1-9]|1[0-2])")


class Month(fields.String):
    """One month as `2026-03`; its first day."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        found = _MONTH.fullmatch(text)
        if found is None:
            raise ValidationError("must be year and month, such as 2026-03")
        return date(int(found[1]), int(found[2]), 1)


def _month(name: str, text: str, example: str) -> Month:
    return Month(data_key=name, metadata={**described(text), "example": example})


class ReconciliationQuerySchema(Schema):
    first = _month(
        "from", "The first month. By default, only the month of `to`; without `to`, all.", "2026-02"
    )
    last = _month("to", "The last month, inclusive. By default, the newest.", "2026-03")
    provider = fields.String(
        validate=Length(1, 100),
        metadata=described("Only this provider, such as `openai`, or coding agent."),
    )
    lines = fields.String(
        validate=OneOf(LINES),
        metadata=described("Also return the lines of each month: by `day`, `model` or `project`."),
    )

    @validates_schema
    def check(self, query: dict[str, Any], **_: Any) -> None:
        if "first" in query and "last" in query and query["first"] > query["last"]:
            raise ValidationError("must not be after to", "from")


def _usd(text: str, **options: Any) -> fields.Float:
    return fields.Float(metadata=described(text), **{"required": True, **options})


class PartSchema(Schema):
    kind = required(
        fields.String,
        "`not_sent`, `discount`, `tiers_without_cost`, `web_search`, `unexplained` or another.",
    )
    usd = _usd("What it adds to what your calls counted, in US dollars.")


class UnsentSchema(Schema):
    """An estimate, because calls don't name their project."""

    project_id = required(fields.String, "The provider's ID; empty for the default project.")
    project = required(fields.String, "Its name at the provider, or empty.")
    usd = _usd("What it wasn't sent of, at the rates that were billed.")


class CurrencySchema(Schema):
    currency = required(fields.String, "Such as `EUR`.")
    amount = required(fields.Float, "The amount, which is in no other figure.")


class BillLineSchema(Schema):
    key = required(fields.String, "The day, the model or kind of fee, or the project's ID.")
    name = required(fields.String, "The project's name, or empty.")
    billed_usd = _usd("What the provider billed.")
    reported_usd = _usd("What it reported as used, at list price.")
    counted_usd = _usd("What your calls counted, at list price; of a project, an estimate.")
    coverage = fields.Float(
        allow_none=True, metadata=described("Share of the reported tokens that your calls cover.")
    )


class ReconciliationSchema(Schema):
    """`counted_usd` and all parts add up to `billed_usd`."""

    provider = required(fields.String, "The model provider.")
    month = required(fields.String, "The month of UTC days, such as `2026-03`.")
    billed_usd = _usd("What the provider's cost report says.")
    reported_usd = _usd("What its usage report says, at list price.")
    counted_usd = _usd("What your calls counted, at list price.")
    explained_usd = _usd("What your calls explain of the bill, at the rates that were billed.")
    coverage = fields.Float(
        allow_none=True, metadata=described("Share of the reported tokens that your calls cover.")
    )
    rate = required(fields.Float, "Billed ÷ list price: 0.88 for a discount of 12%.")
    unexplained_usd = _usd("What no other part explains.")
    parts = required(
        fields.List, "The difference between counted and billed.", fields.Nested(PartSchema)
    )
    not_sent = required(fields.List, "What wasn't sent, by project.", fields.Nested(UnsentSchema))
    other_currencies = required(
        fields.List, "Amounts in other currencies.", fields.Nested(CurrencySchema)
    )
    summary = required(fields.String, "The month in a few sentences.")
    locked_at = fields.DateTime(
        metadata=described("When the month was locked, 10 days after its end. Absent until then.")
    )
    locked_billed_usd = fields.Float(
        metadata=described("What was billed then; later changes are corrections.")
    )
    lines = fields.List(
        fields.Nested(BillLineSchema), metadata=described("The lines that `lines` asks for.")
    )


class AgentTokensSchema(Schema):
    """What an agent counted, beside the calls."""

    own_tokens = required(fields.Integer, "What the agent counted: input and output tokens.")
    held_tokens = required(
        fields.Integer, "The input and output tokens of all your calls of the same days and models."
    )
    covered_tokens = required(fields.Integer, "The agent's own tokens that are also in your calls.")
    coverage = fields.Float(
        allow_none=True, metadata=described("Share of the agent's own tokens in your calls.")
    )


class AgentLineSchema(AgentTokensSchema):
    key = required(fields.String, "The day or the model.")


class AgentMonthSchema(AgentTokensSchema):
    """A coding agent's own totals, which aren't included in spend."""

    agent = required(fields.String, "`claude-code`, `codex`, `gemini-cli` or `copilot`.")
    month = required(fields.String, "The month of UTC days, such as `2026-03`.")
    estimated_usd = _usd("What the agent itself estimates that they cost; 0 if it doesn't.")
    summary = required(fields.String, "The month in a sentence.")
    lines = fields.List(
        fields.Nested(AgentLineSchema),
        metadata=described("The lines that `lines` asks for, by `day` or `model`."),
    )


class ReconciliationListSchema(Schema):
    reconciliations = required(
        fields.List, "Newest month first.", fields.Nested(ReconciliationSchema)
    )
    agents = required(
        fields.List,
        "What coding agents counted themselves, newest month first.",
        fields.Nested(AgentMonthSchema),
    )


def describe(found: Reconciliation, lines: str | None = None) -> dict[str, Any]:
    """Return one month as the API, and the command with `--json`, have it."""
    answer: dict[str, Any] = {
        **{name: getattr(found, name) for name in ("provider", "billed_usd", "reported_usd")},
        **{name: getattr(found, name) for name in ("counted_usd", "explained_usd", "coverage")},
        "month": f"{found.month:%Y-%m}",
        "rate": found.rate,
        "unexplained_usd": found.unexplained_usd,
        "parts": [{"kind": part.kind, "usd": part.usd} for part in found.parts],
        "not_sent": [
            {"project_id": part.project_id, "project": part.project, "usd": part.usd}
            for part in found.projects
        ],
        "other_currencies": [
            {"currency": currency, "amount": amount}
            for currency, amount in sorted(found.other_currencies.items())
        ],
        "summary": summarize(found),
    }
    if found.locked_at is not None:
        answer |= {"locked_at": found.locked_at, "locked_billed_usd": found.locked_usd}
    if lines is not None:
        by_label = found.models if lines == MODEL else found.by_project
        names = ("key", "name", "billed_usd", "reported_usd", "counted_usd", "coverage")
        answer["lines"] = [
            {name: getattr(line, name) for name in names}
            for line in (found.days if lines == DAY else by_label)
        ]
    return answer


def describe_agent(found: AgentMonth, lines: str | None = None) -> dict[str, Any]:
    """Return what one agent counted in one month, beside the calls."""
    names = ("own_tokens", "held_tokens", "covered_tokens", "coverage")
    answer = {
        "agent": found.key,
        "month": f"{found.month:%Y-%m}",
        **{name: getattr(found, name) for name in (*names, "estimated_usd")},
        "summary": summarize_agent(found),
    }
    if lines in (DAY, MODEL):
        answer["lines"] = [
            {name: getattr(line, name) for name in ("key", *names)}
            for line in (found.days if lines == DAY else found.models)
        ]
    return answer
