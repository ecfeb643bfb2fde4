"""The audit of an account whose calls don't fit into memory, on Spark."""

from collections.abc import Callable, Sequence
from importlib import import_module

import msgspec

from detectors.contract import AuditedWindow, CallWindow
from detectors.frames.inputs import MissingEngineError
from detectors.report.account.imports import Terms


class SparkWindows(msgspec.Struct, frozen=True):
    """The audits of an account on Spark, on an active session or a new one.

    `remote` is the address of a Spark Connect server; without it, `master` is that of a cluster, or
    `local[2]` for two cores of this machine.
    """

    terms: Terms
    remote: str = ""
    master: str = ""

    def audit(
        self,
        urls: Sequence[str],
        window: CallWindow,
        *,
        calls: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> AuditedWindow:
        """Audit the calls of a window as `audit_window` does, with equal results.

        Parameters
        ----------
        urls : sequence of str
            The merged files, at addresses that Spark can read.
        window
            As for `audit_window`.
        calls : int
            How many calls the files have.
        progress : callable of (int, int), optional
            As for `audit_window`; it is called while Spark's jobs run as well.

        Raises
        ------
        SparkUnavailableError, SparkUnreachableError
            Spark doesn't start, or can't be reached.
        ExecutorsLackPackageError, VersionsDifferError, SparkJobError
            The executors lack a package, have another version, or the job failed.
        IncompleteFilesError
            Spark read another number of calls, because it skipped a file or a part of it.
        """
        try:
            spark = import_module("detectors.frames.spark")
            windows = import_module("detectors.distributed.spark.windows")
        except ImportError as error:
            raise MissingEngineError.of_name("pyspark") from error
        with spark.opened_session(self.remote, self.master) as session:
            frame = spark.scan_all(session, urls)
            audited: AuditedWindow = windows.audit_window(
                frame, window, self.terms, calls=calls, progress=progress
            )
            return audited
