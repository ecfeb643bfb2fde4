"""The audit of an account whose calls don't fit into memory, on Spark."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile

import msgspec
import polars as pl

from detectors.contract import AuditedWindow, CallWindow
from detectors.frames.inputs import MissingEngineError
from detectors.report.account.imports import Terms
from detectors.report.account.windows import audit_window


class IncompleteFilesError(RuntimeError):
    """Spark has read another number of calls than the files have."""


class SparkWindows(msgspec.Struct, frozen=True):
    """The audits of an account on Spark, on an active session or a new one.

    `remote` is the address of a Spark Connect server; without it, `master` is that of a cluster, or
    `local[2]` for two cores of this machine.
    """

    terms: Terms
    remote: str = ""
    master: str = ""

    def audit(self, urls: Sequence[str], window: CallWindow, *, calls: int) -> AuditedWindow:
        """Audit the calls of a window as `audit_window` does, with equal results.

        Parameters
        ----------
        urls : sequence of str
            The merged files, at addresses that Spark can read.
        window
            As for `audit_window`.
        calls : int
            How many calls the files have.

        Raises
        ------
        MissingEngineError, SparkUnavailableError, SparkUnreachableError
            Spark is not installed, doesn't start, or can't be reached.
        IncompleteFilesError
            Spark skipped a file or a part of it.
        """
        try:
            spark = import_module("detectors.frames.spark")
        except ImportError as error:
            raise MissingEngineError.of_name("pyspark") from error
        with spark.opened_session(self.remote, self.master) as session:
            frame = pl.DataFrame(spark.scan_all(session, urls).toArrow())
        if frame.height != calls:
            raise IncompleteFilesError(f"{frame.height} of {calls} calls")
        with NamedTemporaryFile(suffix=".parquet") as file:
            frame.write_parquet(file.name)
            del frame
            return audit_window([Path(file.name)], window, self.terms)
