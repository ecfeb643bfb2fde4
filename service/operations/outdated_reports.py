"""An account's reports whose figures would be others with the prices and assumptions of today."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final, NamedTuple

from msgspec import DecodeError
from sqlalchemy.orm import Session

from service.models.audits.audit_lists import Published, list_page, lock_each
from service.models.audits.audit_settings import find_settings
from service.models.audits.audits import Audit
from service.operations.price_book import find_fetched_at
from service.operations.price_terms import find_changes, find_own_prices
from service.operations.recalculation import queue_ended
from service.reports.documents import Document, make_document, read_listed
from service.reports.kept import KeptParts

# So many reports are compared at a time, and recalculated at most.
PAGE_SIZE: Final = 100

_changes: Final = KeptParts[Sequence[str]](5_000)

Compare = Callable[[Document], Sequence[str]]


class Outdated(NamedTuple):
    """An audit with a report, and what has changed since: "prices", "assumptions" or both."""

    audit: Audit
    changes: Sequence[str]


class OutdatedPage(NamedTuple):
    """The outdated ones of some reports; the list continues after `last_id`, if it is given."""

    rows: Sequence[Outdated]
    compared: int
    last_id: str


def compare_today(session: Session, account_id: str) -> Compare:
    """Return a function that finds what has changed since a report of the account."""
    chosen = find_settings(session, account_id)
    fetched_at = find_fetched_at(session.connection())

    load_book = cache(partial(find_own_prices, session.connection(), chosen.price_terms))

    def compare(document: Document) -> Sequence[str]:
        def find() -> Sequence[str]:
            try:
                report = read_listed(document.load())
            except DecodeError:  # only the page of this report fails
                return ()
            return find_changes(report, chosen.assumptions, load_book())

        return _changes.get((document.key, chosen.key, fetched_at), find)

    return compare


def list_outdated(session: Session, account_id: str, after: str) -> OutdatedPage:
    """Compare a page of the account's reports, newest first, after the given audit, if any."""
    found = list_page(session, account_id, after, PAGE_SIZE + 1)
    compared = found[:PAGE_SIZE]
    last_id = compared[-1][0].id if len(found) > PAGE_SIZE else ""
    return OutdatedPage(_choose(session, account_id, compared), len(compared), last_id)


def recalculate_outdated(
    session: Session, account_id: str, audit_ids: Sequence[str], at_most: int
) -> Sequence[Audit]:
    """Queue those of the account's audits again whose reports are outdated.

    Audits that are queued already, or were recalculated in the meantime, stay as they are.
    """
    found = lock_each(session, account_id, audit_ids[:PAGE_SIZE])
    chosen = [row.audit for row in _choose(session, account_id, found)][:at_most]
    for audit in chosen:
        queue_ended(audit)
    return chosen


def _choose(session: Session, account_id: str, found: Sequence[Published]) -> Sequence[Outdated]:
    compare = compare_today(session, account_id)
    compared = (
        Outdated(audit, compare(make_document(session, audit.id, published_at)))
        for audit, published_at in found
    )
    return [row for row in compared if row.changes]
