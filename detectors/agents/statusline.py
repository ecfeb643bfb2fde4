"""The line under Claude Code's prompt, and the limits that Claude Code hands to it."""

import time
from datetime import datetime
from typing import Any, Final

from detectors.agents import reading, views
from detectors.agents.ledger import Ledger

_WINDOWS: Final = {"five_hour": ("5h", 300), "seven_day": ("week", 10_080)}
_MILLISECONDS: Final = 100_000_000_000  # above it, a time since 1970 isn't in seconds
_SESSION: Final = """
SELECT sum(usd) FILTER (WHERE NOT is_metered), sum(usd) FILTER (WHERE is_metered)
FROM calls WHERE session = ? AND usd > 0
"""


def status_line(ledger: Ledger, given: dict[str, Any]) -> str:
    """Return the line for what Claude Code gives, and keep its limits in the ledger."""
    reading.update(ledger)
    reading.price(ledger, may_load=False)  # a new model waits for the next full command
    parts = []
    model = _inner(given, "model").get("display_name") or _inner(given, "model").get("id")
    if isinstance(model, str) and model.isprintable():
        parts.append(model[:40])
    session = given.get("session_id")
    if isinstance(session, str):
        amounts = ledger.database.execute(_SESSION, (session,)).fetchone()
        parts.append(f"session {views.apart(*(amount or 0.0 for amount in amounts))}")
    now = time.time()
    today = views.Choice(since=datetime.fromtimestamp(now).astimezone().date())
    total = views.total_of(views.sum_calls(ledger, "daily", today)).sums
    later = " (some calls not priced yet: run `tallystick agents`)" if total.unpriced_calls else ""
    parts.append(f"today {views.apart(total.value_usd, total.billed_usd)}{later}")
    limits, rows = _inner(given, "rate_limits"), list[tuple[Any, ...]]()
    for name, (label, minutes) in _WINDOWS.items():
        window = _inner(limits, name)
        used, resets = window.get("used_percentage"), window.get("resets_at")
        if not isinstance(used, int | float):
            continue
        parts.append(f"{label} {used:.0f}%")
        if isinstance(resets, int | float) and 0 < resets < 1_000 * _MILLISECONDS:
            seconds = int(resets if resets < _MILLISECONDS else resets / 1_000)
            rows.append(("claude-code", minutes, seconds, used, used, "", int(now)))
    if rows:
        with ledger.changing():
            ledger.put_limits(rows)
    return " · ".join(parts)


def _inner(given: dict[str, Any], name: str) -> dict[str, Any]:
    found = given.get(name)
    return found if isinstance(found, dict) else {}
