"""Cursor's usage events, and the lines by day that they become.

An event that the plan includes is a charge and a credit of the same amount, so that what was used
shows and the bill stays what it is. Events name people, whom we don't store.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from service.connections.client import UnreadableResponseError
from service.connections.exports import add_up
from service.connections.provider import (
    BOTH,
    CREDIT,
    DAY,
    Asking,
    CostLine,
    Page,
    Provider,
    Report,
    Sight,
    TotalsLine,
    UsageLine,
    Window,
    clean,
)

INCLUDED: Final = "Included in the plan"
_EVENTS: Final = "/teams/filtered-usage-events"
_OWN_KEY, _NO_CHARGE = "user api key", "no charge"
_AT_ONCE: Final = 500
_MOST_PAGES: Final = 2_000
_CENTS: Final = Decimal(100)
_LOOK_BACK: Final = timedelta(days=29)

REPORTS: Final = (
    Report(
        name="events",
        kind=BOTH,
        path=_EVENTS,
        grouping=("model",),
        most_buckets=5,  # of many pages each
        span=30 * DAY,  # the longest range of a request
    ),
)


class Cursor(Provider):
    name = "cursor"
    title = "Cursor"
    base_url = "https://api.cursor.com"
    key_prefix = ""
    key_page = "https://cursor.com/dashboard?tab=settings"
    key_words = "an Admin API key, which an admin of the team makes"
    pause_seconds = 60.0
    prices_usage = True
    reports: Sequence[Report] = REPORTS

    def headers(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Basic {b64encode(f'{key}:'.encode()).decode()}"}

    def request(self, client: Asking, window: Window, page: str | None) -> Any:
        """Return the events of all pages: these are cut within days.

        Newer events move older ones to the next page, so one that comes again there counts once.
        """
        now = datetime.now(UTC)
        last = min(window.last or now, now)
        query = {"startDate": _millis(window.first), "endDate": _millis(last) - 1}
        events: list[Any] = []
        before: list[Any] = []
        for number in range(1, _MOST_PAGES):
            body = client.post(_EVENTS, {**query, "page": number, "pageSize": _AT_ONCE})
            shown = body["usageEvents"]
            if shown and shown == before:
                break
            events += [each for each in shown if each not in before]
            if not body["pagination"]["hasNextPage"]:
                return events
            before = shown
        raise UnreadableResponseError

    def read_page(self, report: Report, body: Any) -> Page:
        lines: list[TotalsLine] = []
        for event in body:
            kind = clean(event.get("kind")).lower()
            if kind.startswith(_OWN_KEY):
                continue  # on the bill of another provider
            moment = datetime.fromtimestamp(int(event["timestamp"]) / 1_000, UTC)
            day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
            tokens, cents = event.get("tokenUsage") or {}, event.get("chargedCents")
            cents = tokens.get("totalCents") if cents is None else cents
            lines += lines_of(
                day,
                clean(event.get("model")),
                Decimal(0) if _NO_CHARGE in kind else Decimal(str(cents or 0)) / _CENTS,
                is_included=kind.startswith("included"),
                uncached=tokens.get("inputTokens") or 0,
                cached=tokens.get("cacheReadTokens") or 0,
                written=tokens.get("cacheWriteTokens") or 0,
                completion=tokens.get("outputTokens") or 0,
            )
        return Page.of(add_up(lines))

    def look(self, client: Asking, now: datetime) -> Sight:
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        query = {"startDate": _millis(midnight - _LOOK_BACK), "endDate": _millis(now)}
        body = client.post(_EVENTS, {**query, "page": 1, "pageSize": 1})
        has_some = bool(body["usageEvents"])
        return Sight("", 0, midnight - _LOOK_BACK if has_some else None)


def lines_of(
    day: datetime,
    model: str,
    usd: Decimal,
    *,
    is_included: bool,
    uncached: int,
    cached: int,
    written: int,
    completion: int,
) -> Iterator[TotalsLine]:
    """Yield the lines of an event."""
    yield UsageLine(
        bucket=day,
        model=model,
        requests=1,
        prompt_tokens=uncached + cached + written,
        completion_tokens=completion,
        cached_tokens=cached,
        cache_write_tokens=written,
        usd=usd,
    )
    if usd:
        yield CostLine(bucket=day, line_item=model, model=model, amount=usd)
        if is_included:
            yield CostLine(bucket=day, line_item=INCLUDED, kind=CREDIT, amount=-usd)


def _millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000)
