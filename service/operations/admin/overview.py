"""Load the content of the admin page: no records and no secrets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from redis import RedisError
from sqlalchemy.orm import Session

from detectors.wording.findings_csv import write_csv
from service.jobs.queues import AuditQueues
from service.models.base import utc_now
from service.models.identity.early_access import EarlyAccess
from service.models.operations import admin_listings as listings
from service.models.operations import totals
from service.models.operations.admin_listings import Page, age_seconds, with_age
from service.models.operations.stored_data import list_largest
from service.models.sending import FAILED

_LISTS: Final[Mapping[str, tuple[str, Callable[[Session, int], Page]]]] = {
    "audits": ("audits_page", listings.page_of_audits),
    "accounts": ("accounts_page", listings.page_of_accounts),
    "payment_events": ("events_page", listings.page_of_events),
    "early_access": ("early_access_page", listings.page_of_early_access),
    "acts": ("acts_page", listings.page_of_admin_actions),
}


def load_overview(
    session: Session, queues: AuditQueues, pages: Mapping[str, int]
) -> dict[str, Any]:
    """Load the requested page of each list, and the queues."""
    now, connection = utc_now(), session.connection()
    wake_ups: dict[str, int] | None = None
    with suppress(RedisError, OSError):
        wake_ups = queues.depths()
    found = {
        name: (parameter, load(session, pages[parameter]))
        for name, (parameter, load) in _LISTS.items()
    }
    overview: dict[str, Any] = {name: list(page.rows) for name, (_, page) in found.items()}
    overview["audits"] = with_age(found["audits"][1], now).rows
    return overview | {
        "queue": _waiting(totals.list_waiting_audits(connection), now),
        "wake_ups": wake_ups,
        "mails": _waiting(totals.list_waiting_mails(connection), now),
        "failed_mails": totals.count_mails(connection).get(FAILED, 0),
        "stored_data": list_largest(session),
        "next_pages": {
            parameter: page.number + 1 for parameter, page in found.values() if page.has_next
        },
    }


def _waiting(rows: Sequence[totals.Waiting], now: datetime) -> list[dict[str, Any]]:
    return [
        {**row._asdict(), "oldest_age_seconds": age_seconds(row.oldest_at, now)} for row in rows
    ]


def write_early_access(rows: Iterable[EarlyAccess]) -> str:
    """Return the early-access requests as CSV."""
    cells = [(row.email, row.asked_at.isoformat()) for row in rows]
    return write_csv(("email", "asked_at"), cells)
