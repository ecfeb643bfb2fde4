"""The body of a notice, and the headers that let a webhook's receiver check it."""

import html
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from detectors.wording.labels import may_be_link
from service.models.notices.deliveries import NoticeDelivery
from service.models.notices.events import heading_of
from service.models.notices.targets import SLACK

_USER_AGENT: Final = "Tallystick/1"
_PATH, _URL = "path", "url"
_MAX_TEXT: Final = 2_900  # Slack accepts 3,000 characters in a section


def write_message(
    delivery: NoticeDelivery, base_url: str, now: datetime
) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body; the body is the same at each attempt."""
    data = {name: value for name, value in delivery.payload.items() if name != _PATH}
    if _PATH in delivery.payload:
        data[_URL] = f"{base_url}{delivery.payload[_PATH]}"
    if delivery.target.kind == SLACK:
        heading, summary = heading_of(delivery.event_type), str(data.get("summary", ""))[:_MAX_TEXT]
        blocks: list[dict[str, Any]] = [_section("mrkdwn", f"*{heading}*")]
        if summary:
            blocks.append(_section("plain_text", summary, emoji=False))
        if _URL in data:
            link = f"<{data[_URL]}|View in Tallystick>"
            element = {"type": "mrkdwn", "text": link, "verbatim": True}
            blocks.append({"type": "context", "elements": [element]})
        if summary and not may_be_link(summary):
            # Labels must not be mentions, and Slack prescribes how to escape them.
            heading += f": {html.escape(summary, quote=False)}"
        return _headers(), _encode({"text": heading, "blocks": blocks})
    body = _encode(
        {
            "type": delivery.event_type,
            "timestamp": delivery.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "data": data,
        }
    )
    # Only the job that sends needs the library.
    from standardwebhooks.webhooks import Webhook

    signature = Webhook(delivery.target.secret).sign(delivery.event_id, now, body.decode())
    return _headers() | {
        "webhook-id": delivery.event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }, body


def _section(kind: str, text: str, **options: bool) -> dict[str, Any]:
    return {"type": "section", "text": {"type": kind, "text": text, **options}}


def _headers() -> dict[str, str]:
    return {"Content-Type": "application/json", "User-Agent": _USER_AGENT, "Connection": "close"}


def _encode(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
