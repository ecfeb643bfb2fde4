"""Compaction: merge an account's call files, one merge and one transaction at a time.

New blobs are written before the transaction that names them, and old blobs are removed after it, by
housekeeping. Killed at any step, it loses and doubles nothing: what it left is an orphan blob.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, BinaryIO, Final

from sqlalchemy import Connection, Engine, text

from detectors.contract import DailySpend, MergedCalls
from service.core.blobs import BlobNotFoundError, BlobStore
from service.core.logs import get_logger
from service.jobs.stopping import is_stop_requested
from service.jobs.transactions import transact
from service.models.audits.blob_keys import store_key
from service.models.base import new_id, utc_now
from service.models.calls.call_files import (
    add_files,
    drop_replaced_imports,
    is_live,
    list_live,
    list_replaced_imports,
    replace_files,
)
from service.models.calls.daily_spend import add_spend
from service.models.calls.future_calls import finish_deletions, list_pending_deletions
from service.operations.call_store.plan import MAX_CALLS, File, Merge, months_before, plan_merges

# An arbitrary number: every compaction takes a lock of its account with it.
_NUMBER: Final = 725_502
_LOCK: Final = text("SELECT pg_advisory_lock(:lock, hashtext(:account))")
_TRY_LOCK: Final = text("SELECT pg_try_advisory_lock(:lock, hashtext(:account))")
_UNLOCK: Final = text("SELECT pg_advisory_unlock(:lock, hashtext(:account))")

_log = get_logger(__name__)


# Merges stored files: the files, each with its import if it is the frame of one, and options. The
# worker hands it in, because this package loads no dataframe library.
MergeFiles = Callable[..., Iterator[MergedCalls]]
# Finds which other stored files have a call that is in these files, too.
FindRepeated = Callable[[Sequence[tuple[BinaryIO, str | None]], Iterable[BinaryIO]], Sequence[bool]]
New = tuple[dict[str, Any], Sequence[DailySpend]]
# A reading of an import, and the first and last day of its calls that were deleted.
Deleted = tuple[Any, ...]


class FilesChangedError(Exception):
    """A file was replaced while it was being merged; another try will see the new one."""


@dataclass(frozen=True)
class Compaction:
    """The compaction of one account's files; `merge` also sums their spend."""

    engine: Engine
    blobs: BlobStore
    account_id: str
    merge: MergeFiles
    find_repeated: FindRepeated
    now: Callable[[], datetime] = utc_now

    def run(self, *, at_once: bool = False) -> int:
        """Merge until nothing is due; return the number of merges.

        While another process compacts the account, do nothing. With `at_once`, wait for that
        process instead, and do not wait for more calls: afterwards, each call that was
        published before is once in the merged files. Raise `FilesChangedError` if they are not,
        because files were replaced so often.
        """
        merges, rewrote = 0, False
        with self._only_one(is_patient=at_once) as is_only:
            while is_only:
                replaced = self._transact(list_replaced_imports)
                without = [row.import_id for row in replaced]
                files = self._transact(list_live)
                pending = self._transact(list_pending_deletions)
                deleted = [tuple(row[1:]) for row in pending]
                plan = plan_merges(
                    files,
                    self.now(),
                    replaced=[(row.first_day, row.last_day) for row in replaced],
                    deleted=[(row.first_day, row.last_day) for row in pending],
                    at_once=at_once,
                )
                due = list(plan)
                done = [
                    (at_once or not is_stop_requested())
                    and self._run(each, without, deleted, at_once=at_once)
                    for each in due
                ]
                merges += sum(done)
                if all(done):
                    transact(self.engine, partial(drop_replaced_imports, import_ids=without))
                    done_ids = [row.id for row in pending]
                    finish = partial(finish_deletions, account_id=self.account_id, ids=done_ids)
                    transact(self.engine, finish)
                # While a deletion can't end, its files would be written again in every round.
                rewrites = all(each.is_rewrite for each, ok in zip(due, done, strict=True) if ok)
                is_stuck = not any(done) or (rewrites and rewrote)
                rewrote = rewrites
                if at_once and is_stuck and not all(done):
                    raise FilesChangedError
                if is_stuck:
                    break
        if merges:
            _log.info("calls_compacted", account_id=self.account_id, merges=merges)
        return merges

    def _transact(self, query: Callable[..., Sequence[Any]]) -> Sequence[Any]:
        return transact(self.engine, partial(query, account_id=self.account_id))

    @contextmanager
    def _only_one(self, *, is_patient: bool) -> Iterator[bool]:
        """Hold a lock of the account, which ends with its connection if this process is killed."""
        key = {"lock": _NUMBER, "account": self.account_id}
        connected = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        with connected as connection:
            if is_patient:
                connection.execute(_LOCK, key)
            is_only = is_patient or bool(connection.scalar(_TRY_LOCK, key))
            try:
                yield is_only
            finally:
                if is_only:
                    connection.execute(_UNLOCK, key)

    def _run(
        self, planned: Merge, without: Sequence[str], deleted: Sequence[Deleted], *, at_once: bool
    ) -> bool:
        """Write the new files and put them in place of the old; False if these have changed."""
        live = self._transact(list_live)
        if not {file.id for file in planned.files} <= {file.id for file in live}:
            return False  # an earlier merge has taken one of them, and another is planned next
        try:
            due, others = self._find_others(planned, live, at_once=at_once)
            new = self._write(due, others, without=without, deleted=deleted)
        except BlobNotFoundError as error:
            if error.is_empty:
                raise
            # An audit that was published again has replaced its frame.
            return self._has_changed()
        try:
            transact(self.engine, partial(_replace, due=due, new=new))
        except FilesChangedError:
            for row, _ in new:
                self.blobs.delete(row["blob_key"])
            return self._has_changed()
        return True

    def _find_others(
        self, planned: Merge, live: Sequence[File], *, at_once: bool
    ) -> tuple[Merge, Sequence[File]]:
        """Return the merge, with all files that have one of its calls, and others of its days.

        Files of the days beside are read only before an audit and when a day is over.
        """
        others = planned.find_others(live)
        is_over = at_once or any(file.first_day < self.now().date() for file in planned.files)
        is_read = planned.has_new and is_over
        beside = planned.find_neighbors(live, at_once=at_once) if is_read else []
        if planned.has_new and others and planned.is_many_for(others):
            planned, others = Merge([*planned.files, *others]), []
        if not planned.has_new or not (others or beside):
            return planned, others
        read = [*others, *beside]
        with ExitStack() as stack:
            repeated = self.find_repeated(self._open(planned, stack), self._open_each(read))
        calls, more = sum(file.calls for file in planned.files), list[File]()
        for file, is_repeated in zip(read, repeated, strict=False):
            if is_repeated and calls + file.calls <= MAX_CALLS:
                more.append(file)
                calls += file.calls
        return Merge([*planned.files, *more]), [file for file in others if file not in more]

    def _open(self, due: Merge, stack: ExitStack) -> list[tuple[BinaryIO, str | None]]:
        return [
            (stack.enter_context(self.blobs.open(file.blob_key)), file.import_id)
            for file in due.files
        ]

    def _open_each(self, files: Iterable[File]) -> Iterator[BinaryIO]:
        for file in files:
            with self.blobs.open(file.blob_key) as stored:
                yield stored

    def _has_changed(self) -> bool:
        _log.warning("call_files_changed", account_id=self.account_id)
        return False

    def _write(self, due: Merge, others: Sequence[File], **excluded: Sequence[Any]) -> list[New]:
        new: list[New] = []
        now = self.now()
        options = {"months_before": months_before(now), "today": now.date(), **excluded}
        with ExitStack() as stack:
            for merged in self.merge(self._open(due, stack), **options):
                file_id, days = new_id(), (merged.first_day, merged.last_day)
                # Earlier duplicates are counted on the days on which they were found.
                earlier = [
                    file.duplicates for file in due.files if days[0] <= file.first_day <= days[1]
                ]
                row: dict[str, Any] = {
                    "id": file_id,
                    "account_id": self.account_id,
                    "blob_key": store_key(file_id),
                    "level": due.level_of(days, others, now),
                    "import_id": None,
                    "first_day": days[0],
                    "last_day": days[1],
                    "calls": merged.calls,
                    "bytes": len(merged.content),
                    "imports": merged.imports,
                    "duplicates": merged.duplicates + sum(earlier),
                    "priced_with": merged.priced_with,
                    "rates": merged.rates,
                }
                self.blobs.put(row["blob_key"], merged.content)
                new.append((row, merged.spend))
        return new


def _replace(connection: Connection, due: Merge, new: Sequence[New]) -> None:
    """Replace the files in the catalog, unless an earlier try has, whose answer was lost."""
    rows = [row for row, _ in new]
    if rows and is_live(connection, rows[0]["id"]):
        return
    if not replace_files(connection, [file.id for file in due.files]):
        raise FilesChangedError
    add_files(connection, rows)
    add_spend(connection, [(row["id"], row["account_id"], spend) for row, spend in new])
