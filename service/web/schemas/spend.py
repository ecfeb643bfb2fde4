"""Schemas of spend: the query with its range and its keys, the response, and calls after today."""

import re
from datetime import date, timedelta
from typing import Any, Final

from marshmallow import Schema, ValidationError, fields, post_load, validates_schema
from marshmallow.validate import OneOf, Range

from service.models.base import utc_now
from service.models.calls.spend import DAY, KEYS, MAX_DAYS, MAX_KEYS, Selection
from service.reports.focus import V1_2, VERSIONS
from service.web.schemas.audits import limit_field
from service.web.schemas.cursors import EXPECTED, CursorField, Rows, SpendCursor, find_spend_cursor
from service.web.schemas.ingest import described, required

JSON, CSV, FOCUS = FORMATS = ("json", "csv", "focus")
DEFAULT_DAYS: Final = 30
_FIRST_DAY, _LAST_DAY = date(2000, 1, 1), date(2100, 12, 31)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DAY_EXPECTED: Final = f"must be a day from {_FIRST_DAY} to {_LAST_DAY}, such as 2026-03-01"


def find_day(text: str) -> date | None:
    """Return the day of an ISO 8601 date within the range of the contract, or None."""
    try:
        day = date.fromisoformat(text) if _DAY.fullmatch(text) else None
    except ValueError:
        return None
    return day if day is not None and _FIRST_DAY <= day <= _LAST_DAY else None


class Day(fields.String):
    """A day, as an ISO 8601 date."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        day = find_day(super()._deserialize(value, attr, data, **kwargs))
        if day is None:
            raise ValidationError(_DAY_EXPECTED)
        return day


class GroupBy(fields.String):
    """Keys, separated by commas."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        keys = tuple(super()._deserialize(value, attr, data, **kwargs).split(","))
        if not set(keys) <= set(KEYS):
            raise ValidationError(f"must be keys separated by commas, of {', '.join(KEYS)}")
        if len(set(keys)) < len(keys):
            raise ValidationError("must name each key once")
        if len(keys) > MAX_KEYS:
            raise ValidationError(f"must name at most {MAX_KEYS} keys")
        return keys

    def _serialize(self, value: Any, attr: Any, obj: Any, **kwargs: Any) -> str:
        """Return the keys as a query has them, for the default in the API's description."""
        return ",".join(value)


def day_field(name: str, text: str, example: str) -> Day:
    metadata = {"description": text, "example": example, "format": "date"}
    return Day(data_key=name, metadata=metadata)


class SpendQuerySchema(Schema):
    first = day_field(
        "from",
        "The first day (UTC). By default, the last day and the 29 days before it.",
        "2026-03-01",
    )
    last = day_field("to", "The last day (UTC), inclusive. By default, today.", "2026-03-30")
    keys = GroupBy(
        data_key="group_by",
        load_default=(DAY,),
        metadata={
            "description": f"At most {MAX_KEYS} keys, separated by commas: `day`, `route`,"
            " `model`, `provider` or `environment`. By default, `day`.",
            "example": "day,model",
        },
    )
    format = fields.String(
        load_default=JSON,
        validate=OneOf(FORMATS, error=f"must be one of {', '.join(FORMATS)}"),
        metadata=described(
            "`csv` returns all rows as a table, `focus` all charges as CSV rows of FOCUS;"
            " `limit` and `cursor` don't apply, nor does `group_by` to `focus`."
        ),
    )
    version = fields.String(
        load_default=V1_2,
        validate=OneOf(VERSIONS, error=f"must be one of {', '.join(VERSIONS)}"),
        metadata=described("The version of FOCUS. Other formats have none."),
    )
    limit = limit_field("Maximum number of rows to return.")
    cursor = CursorField(
        find_spend_cursor,
        metadata=described("The `next_cursor` of the previous page, with the same parameters."),
    )

    @post_load
    def select(self, query: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add the selection, with the range of the cursor or else the default range."""
        cursor: SpendCursor | None = query.get("cursor")
        if cursor is not None and cursor.keys != query["keys"]:
            raise ValidationError(f"{EXPECTED} with the same group_by", "cursor")
        known = {} if cursor is None else {"first": cursor.first, "last": cursor.last}
        known |= {name: query[name] for name in ("first", "last") if name in query}
        last = known.get("last", utc_now().date())
        first = known.get("first", last - timedelta(days=DEFAULT_DAYS - 1))
        selection = Selection(first=first, last=last, keys=query["keys"])
        if first > last:
            raise ValidationError("must not be after to", "from")
        if selection.days > MAX_DAYS:
            raise ValidationError(f"must be less than {MAX_DAYS} days before to", "from")
        return {**query, "selection": selection}


def _count(text: str) -> fields.Integer:
    return fields.Integer(required=True, validate=Range(min=0), metadata=described(text))


def _dollars(text: str) -> fields.Float:
    return fields.Float(required=True, validate=Range(min=0), metadata=described(text))


def _key(text: str) -> fields.String:
    return fields.String(metadata=described(f"{text} Present if `group_by` names it."))


class FutureSumsSchema(Schema):
    calls = _count("Number of calls.")
    cost_usd = _dollars("Cost at your own prices, in US dollars.")


class _KeysSchema(Schema):
    day = fields.Date(metadata=described("Day of the calls (UTC). Present if `group_by` names it."))
    route = _key("The `tag`, or else the `endpoint`; empty for calls without either.")
    model = _key("The model ID as billed.")
    provider = _key("The model provider.")
    environment = _key("The environment; empty for calls without one.")


class SpendTotalsSchema(Schema):
    calls = _count("Number of calls.")
    unpriced_calls = _count("Calls without a known price; they are in no dollar figure.")
    prompt_tokens = _count("Input tokens, including cached tokens.")
    completion_tokens = _count("Output tokens.")
    cached_tokens = _count("Input tokens read from the cache.")
    cache_write_tokens = _count("Cache-creation input tokens.")
    cost_usd = _dollars("Cost at your own prices, in US dollars.")
    list_usd = _dollars("Cost at list prices, in US dollars.")


class PlanUsageSchema(Schema):
    calls = _count("Number of calls.")
    unpriced_calls = _count("Calls without a known price; they are not in the value.")
    prompt_tokens = _count("Input tokens, including cached tokens.")
    completion_tokens = _count("Output tokens.")
    cached_tokens = _count("Input tokens read from the cache.")
    cache_write_tokens = _count("Cache-creation input tokens.")
    value_usd = _dollars("What the calls would have cost through the API, in US dollars.")


class SpendLineSchema(SpendTotalsSchema, _KeysSchema):  # in this order, keys come first
    """The sums of one group."""


class SpendSchema(Schema):
    first = required(fields.Date, "The first day of the range (UTC).", data_key="from")
    last = required(fields.Date, "The last day of the range (UTC).", data_key="to")
    group_by = required(fields.List, "The keys of each row.", fields.String(validate=OneOf(KEYS)))
    spend = required(
        Rows,
        "Sorted by the keys. Groups without calls are omitted.",
        fields.Nested(SpendLineSchema),
    )
    totals = required(
        fields.Nested, "Sums of the whole range, the same on every page.", SpendTotalsSchema
    )
    plan_usage = required(
        fields.Nested,
        "The calls of the range that a plan includes, such as those of a coding agent on a"
        " subscription. No other figure has them: their value isn't spend.",
        PlanUsageSchema,
    )
    after_today = required(
        fields.Nested,
        "All your calls that are dated after today, whatever the range. A range that ends today"
        " doesn't include them.",
        FutureSumsSchema,
    )
    next_cursor = fields.String(
        metadata=described("Pass it as `cursor` to get the next page. Absent on the last page.")
    )


class FutureCallsQuerySchema(Schema):
    first = day_field("from", "The first day (UTC). By default, tomorrow.", "2034-01-01")
    last = day_field(
        "to", "The last day (UTC), inclusive. By default, all later days.", "2034-01-31"
    )

    @validates_schema
    def check(self, query: dict[str, Any], **_: Any) -> None:
        if "first" in query and "last" in query and query["first"] > query["last"]:
            raise ValidationError("must not be after to", "from")


class FutureLineSchema(FutureSumsSchema):
    """The calls of one day, route and model."""

    day = required(fields.Date, "Day of the calls (UTC).")
    route = required(
        fields.String, "The `tag`, or else the `endpoint`; empty for calls without either."
    )
    provider = required(fields.String, "The model provider.")
    model = required(fields.String, "The model ID as billed.")


class FutureCallsSchema(FutureSumsSchema):
    is_deleting = required(fields.Boolean, "Whether calls that you deleted are still listed.")
    lines = required(fields.List, "Sorted by day, at most 200.", fields.Nested(FutureLineSchema))


class DeletedFutureCallsSchema(Schema):
    calls = required(
        fields.Integer, "Number of calls that are being deleted.", validate=Range(min=0)
    )
