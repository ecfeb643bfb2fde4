"""Answer with spend as a table."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from flask import Response
from sqlalchemy.orm import Session

from service.models.calls.spend import Selection, Sums, iter_spend
from service.reports import focus
from service.web.http.current import current_session_factory
from service.web.http.tables import send_csv, send_workbook

_NAME: Final = "spend"


def answer_spend_csv(account_id: str, wanted: Selection, *, mark: str = "") -> Response:
    """Return all rows as CSV, which begins with the mark."""
    with current_session_factory()() as session:
        rows = _rows(session, account_id, wanted)
        return send_csv(_NAME, _header(wanted), rows, mark=mark)


def answer_focus_csv(account_id: str, wanted: Selection, *, mark: str = "") -> Response:
    """Return rows of FOCUS as CSV, whatever the keys of the selection are."""
    by_charge = replace(wanted, keys=focus.KEYS)
    with current_session_factory()() as session:
        lines = iter_spend(session, account_id, by_charge)
        rows = (focus.make_row(account_id, line) for line in lines)
        return send_csv(f"{_NAME}-focus", focus.HEADER, rows, mark=mark)


def answer_spend_xlsx(account_id: str, wanted: Selection) -> Response:
    """Return all rows as a workbook; raise `InvalidRequestError` if they don't fit."""
    with current_session_factory()() as session:
        return send_workbook(_NAME, _header(wanted), _rows(session, account_id, wanted))


def _header(wanted: Selection) -> Sequence[str]:
    return (*wanted.keys, *Sums._fields)


def _rows(session: Session, account_id: str, wanted: Selection) -> Iterator[Sequence[Any]]:
    for line in iter_spend(session, account_id, wanted):
        yield (*line.key, *line.sums)
