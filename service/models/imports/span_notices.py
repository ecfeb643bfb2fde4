"""What became of the spans that an account sent in the last days, for its pages.

OpenTelemetry's exporter for Python doesn't show what our answers say. A row is of a day and a kind
of notice, of which there are a few dozen, so an account has a bounded number of rows.
"""

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, bindparam, delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.base import Base, Executor, OwnerKey, utc_now

NOTICE_DAYS: Final = 7
_READ: Final = ""  # the kind of the spans that were read
# How the kind of what is said of log records and of metrics begins.
OF_LOGS, OF_METRICS = "log: ", "metric: "
_NOUNS: Final = {OF_LOGS: "log record", OF_METRICS: "data point"}


class SpanNotice(Base):
    """The spans of a day and a kind, with the newest words of their kind; see `Notice`."""

    __tablename__ = "span_notices"

    account_id: Mapped[OwnerKey]
    day: Mapped[date] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    spans: Mapped[int] = mapped_column(BigInteger)
    subject: Mapped[str]
    verdict: Mapped[str]
    last_at: Mapped[datetime]


# Each request runs these: they are compiled once.
_FORGET: Final = delete(SpanNotice).where(
    SpanNotice.account_id == bindparam("account"), SpanNotice.day <= bindparam("before")
)
_NEW: Final = insert(SpanNotice)
_ADD: Final = _NEW.on_conflict_do_update(
    index_elements=("account_id", "day", "kind"),
    set_={
        "spans": SpanNotice.spans + _NEW.excluded.spans,
        **{name: _NEW.excluded[name] for name in ("subject", "verdict", "last_at")},
    },
)


class NoticedSpans(NamedTuple):
    """What doesn't count of spans, log records or data points, and what became of it."""

    kind: str
    spans: int
    subject: str
    verdict: str

    def __str__(self) -> str:
        noun = next((_NOUNS[each] for each in _NOUNS if self.kind.startswith(each)), "span")
        were = "was" if self.spans == 1 else "were"
        return f"{self.spans:,} {noun}{'s'[: self.spans != 1]}{self.subject} {were} {self.verdict}"


class RecentNotice(NamedTuple):
    """A notice of the last days, and the last time that it was given."""

    notice: NoticedSpans
    last_at: datetime


class RecentSpans(NamedTuple):
    """The spans of the last days: how many were read, and what was said of the others."""

    read: int
    notices: Sequence[RecentNotice]

    @property
    def unread(self) -> int:
        return sum(each.notice.spans for each in self.notices)


def note_spans(
    session: Session, account_id: str, read: int, notices: Iterable[NoticedSpans]
) -> None:
    """Add to what is said of an account's spans today."""
    now = utc_now()
    every = [NoticedSpans(_READ, read, "", ""), *notices]
    rows = [
        {**each._asdict(), "account_id": account_id, "day": now.date(), "last_at": now}
        for each in sorted(every)  # two transactions lock the same rows in one order
        if each.spans
    ]
    if rows:
        connection = session.connection()
        connection.execute(_FORGET, {"account": account_id, "before": _before(now)})
        connection.execute(_ADD, rows)


def find_recent_spans(session: Executor, account_id: str) -> RecentSpans:
    """Return what became of an account's spans, those that don't count by their number."""
    query = select(SpanNotice.__table__).where(SpanNotice.account_id == account_id)
    query = query.where(SpanNotice.day > _before(utc_now())).order_by(SpanNotice.day)
    rows = session.execute(query).all()
    newest = {row.kind: row for row in rows}
    sums = {kind: sum(row.spans for row in rows if row.kind == kind) for kind in newest}
    read = sums.pop(_READ, 0)
    notices = [
        RecentNotice(
            NoticedSpans(kind, spans, newest[kind].subject, newest[kind].verdict),
            newest[kind].last_at,
        )
        for kind, spans in sums.items()
    ]
    return RecentSpans(read, sorted(notices, key=lambda each: -each.notice.spans))


def _before(now: datetime) -> date:
    """Return the day before the days that are shown."""
    return date.fromordinal(now.toordinal() - NOTICE_DAYS)
