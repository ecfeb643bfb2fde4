"""Read the state of audits from the database, and wait for it."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Engine, Row, text

from tests.worker.support.waiting import LEAST_SECONDS


class Records:
    """The audits as they stand in the database of one running service."""

    engine: Engine

    def rows(self, query: str, **values: Any) -> Sequence[Row[*tuple[Any, ...]]]:
        with self.engine.connect() as connection:
            return connection.execute(text(query), values).all()

    def execute(self, statement: str, **values: Any) -> None:
        with self.engine.begin() as connection:
            connection.execute(text(statement), values)

    def audit(self, audit_id: str) -> Row[*tuple[Any, ...]]:
        query = (
            "SELECT *, starts AS attempts, starts_before_rerun AS uncounted_attempts FROM audits"
        )
        return self.rows(f"{query} WHERE id = :id", id=audit_id)[0]

    def statuses(self) -> dict[str, int]:
        return dict(self.rows("SELECT status, count(*) FROM audits GROUP BY 1"))

    def wait_done(self, audit_ids: Iterable[str], seconds: float) -> None:
        """Until every audit is done; raises with the statuses of those that are not.

        `seconds` are 60 at least.
        """
        ids = list(audit_ids)
        query = "SELECT id, status, starts FROM audits WHERE id = ANY(:ids) AND status <> 'done'"
        began, seconds = time.monotonic(), max(seconds, LEAST_SECONDS)
        while left := self.rows(query, ids=ids):
            if time.monotonic() - began > seconds:
                raise AssertionError(f"not done after {seconds} s: {left[:5]} of {len(left)}")
            time.sleep(0.05)

    def reports_of(self, audit_ids: Iterable[str]) -> dict[str, int]:
        """How many reports each audit has."""
        query = (
            "SELECT audits.id, count(reports.audit_id) FROM audits LEFT JOIN reports"
            " ON reports.audit_id = audits.id WHERE audits.id = ANY(:ids) GROUP BY 1"
        )
        return dict(self.rows(query, ids=list(audit_ids)))
