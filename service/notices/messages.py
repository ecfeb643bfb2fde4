"""The body of a notice, and the headers that let a webhook's receiver check it."""

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
    data = _add_url(delivery.payload, base_url)
    if delivery.target.kind == SLACK:
        return _headers(), _encode(_write_slack(delivery.event_type, data))
    body = _encode(
        {
            "type": delivery.event_type,
            "timestamp": delivery.created_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "data": data,
        }
    )
    return _headers() | _sign(delivery, body, now), body


def _sign(delivery: NoticeDelivery, body: bytes, now: datetime) -> dict[str, str]:
    # Only the job that sends needs the library.
    from standardwebhooks.webhooks import Webhook

    signature = Webhook(delivery.target.secret).sign(delivery.event_id, now, body.decode())
    return {
        "webhook-id": delivery.event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }


def _add_url(payload: Mapping[str, Any], base_url: str) -> dict[str, Any]:
    """Replace the path of a page by its URL, whose host comes from the settings."""
    data = {name: value for name, value in payload.items() if name != _PATH}
    return data | {_URL: f"{base_url}{payload[_PATH]}"} if _PATH in payload else data


def _write_slack(event_type: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a heading, the summary and a link; the text is what a notification shows.

    Slack makes no links, mentions or formatting of plain text, but it does of a notification's.
    """
    heading, summary = heading_of(event_type), str(data.get("summary", ""))[:_MAX_TEXT]
    blocks: list[dict[str, Any]] = [_section("mrkdwn", f"*{heading}*")]
    if summary:
        blocks.append(_section("plain_text", summary, emoji=False))
    if _URL in data:
        link = f"<{data[_URL]}|View in Tallystick>"
        element = {"type": "mrkdwn", "text": link, "verbatim": True}
        blocks.append({"type": "context", "elements": [element]})
    is_shown = summary and not may_be_link(summary)
    return {"text": f"{heading}: {_escape(summary)}" if is_shown else heading, "blocks": blocks}


def _section(kind: str, text: str, **options: bool) -> dict[str, Any]:
    return {"type": "section", "text": {"type": kind, "text": text, **options}}


def _escape(text: str) -> str:
    """Keep labels from being mentions of Slack's, as Slack prescribes."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _headers() -> dict[str, str]:
    return {"Content-Type": "application/json", "User-Agent": _USER_AGENT, "Connection": "close"}


def _encode(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
