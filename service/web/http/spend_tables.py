"""Answer with spend as a table."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from flask import Response
from sqlalchemy.orm import Session

from service.core.time_zones import UTC_NAME
from service.models.calls.spend import DAY, Selection, Sums, has_more_lines, iter_spend
from service.operations.connections.billing import Billed
from service.reports import focus
from service.web.http.tables import CSV, send_table


class SpendTable(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Spend by the keys of a selection or, whatever these are, as rows of FOCUS."""

    account_id: str
    wanted: Selection
    ending: str = CSV
    mark: str = ""
    is_focus: bool = False
    version: str = focus.V1_2  # of FOCUS
    zone: str = UTC_NAME  # whose days they are

    @property
    def name(self) -> str:
        return "spend-focus" if self.is_focus else "spend"

    @property
    def header(self) -> Sequence[str]:
        if self.is_focus:
            return focus.header(self.version)
        day = DAY if self.zone == UTC_NAME else f"{DAY} ({self.zone})"
        keys = (day if key == DAY else key for key in self.wanted.keys)
        return (*keys, *Sums._fields)

    def has_more_lines(self, session: Session, number: int) -> bool:
        wanted = replace(self.wanted, search="") if self.is_focus else self.wanted
        return has_more_lines(session, self.account_id, wanted, number)

    def rows(self, session: Session) -> Iterator[Sequence[Any]]:
        if not self.is_focus:
            for line in iter_spend(session, self.account_id, self.wanted):
                yield (*line.key, *line.sums)
            return
        billed = Billed(session, self.account_id, replace(self.wanted, search=""))
        wanted = replace(self.wanted, keys=focus.KEYS, search="")  # a bill has all of its lines
        for line in iter_spend(session, self.account_id, wanted):
            key: Sequence[Any] = line.key
            day, provider, model = key[:3]
            bill = billed.share(day, provider, model, line.sums)
            yield focus.arrange(focus.make_row(self.account_id, line, bill), self.version)
        for charge in billed.rest():
            # Of its labels, a charge has only the provider.
            if {"provider": charge.provider}.items() >= self.wanted.only.items():
                yield focus.arrange(focus.make_charge(self.account_id, charge), self.version)


def answer_spend_csv(
    account_id: str, wanted: Selection, *, mark: str = "", zone: str = UTC_NAME
) -> Response:
    """Return all rows as CSV, which begins with the mark."""
    return send_table(SpendTable(account_id=account_id, wanted=wanted, mark=mark, zone=zone))


def answer_focus_csv(account_id: str, wanted: Selection, version: str) -> Response:
    """Return rows of FOCUS as CSV."""
    table = SpendTable(account_id=account_id, wanted=wanted, is_focus=True, version=version)
    return send_table(table)


def answer_spend_xlsx(account_id: str, wanted: Selection, *, zone: str = UTC_NAME) -> Response:
    """Return all rows as a workbook; raise `InvalidRequestError` if they don't fit."""
    return send_table(SpendTable(account_id=account_id, wanted=wanted, ending="xlsx", zone=zone))
