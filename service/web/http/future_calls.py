"""Delete the caller's calls dated after today: for the page and the API."""

from datetime import date

from service.models.base import utc_now
from service.models.calls.future_calls import delete_future_calls
from service.models.identity.security_events import EventKind
from service.web.auth.callers import current_caller
from service.web.auth.security_events import record_event
from service.web.http.current import current_queues, get_session


def delete_calls(days: tuple[date, date]) -> int:
    """Delete, commit, and wake a worker that writes the files again; return the number of calls."""
    session, account_id = get_session(), current_caller().account_id
    calls = delete_future_calls(session, account_id, utc_now().date(), days)
    if calls:
        record_event(EventKind.FUTURE_CALLS_DELETED, account_id, calls=calls)
        session.commit()
        current_queues().enqueue_compaction(account_id)
    return calls
