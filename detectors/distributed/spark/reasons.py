"""Why an audit on Spark fails, in words that say what to do."""

import re
from typing import Final

from detectors.errors import DetectorError
from detectors.frames.spark import NO_FILE_SYSTEM, NoFileSystemError, SparkUnreachableError

__all__ = ["ExecutorsLackPackageError", "SparkJobError", "SparkUnreachableError", "explain"]

_NO_MODULE: Final = re.compile(r"No module named '(\w+)")
_ADVICE: Final = (
    (
        r"PYTHON_VERSION_MISMATCH",
        "Spark's executors run another version of Python than this program. Set "
        "spark.pyspark.python (PYSPARK_PYTHON) to one of the same version.",
    ),
    (
        r"ExecutorLostFailure|Python worker exited unexpectedly|OutOfMemoryError",
        "Spark lost the same part several times, most likely for want of memory: give executors "
        "more (spark.executor.memoryOverhead is what Python gets), or fewer cores.",
    ),
    (
        r"SESSION_NOT_FOUND|SESSION_CLOSED|SESSION_CHANGED|OPERATION_NOT_FOUND",
        "The Spark Connect server was restarted, and has forgotten the session. Audit again in a "
        "new one.",
    ),
    (
        r"Cannot run program|CANNOT_RUN_PROGRAM",
        "Spark's executors have no Python where they look for it: set spark.pyspark.python "
        "(PYSPARK_PYTHON) to its path on them.",
    ),
    (
        r"cancelled|canceled|OPERATION_CANCELED|stopped SparkContext|SparkContext was shut down",
        "The job was cancelled, or Spark was stopped.",
    ),
)


class ExecutorsLackPackageError(DetectorError):
    """A package that the audit needs is not installed on Spark's executors."""

    def __init__(self, module: str) -> None:
        super().__init__(
            f"Spark's executors can't import {module}. Install 'tallystick-server[spark]' on each "
            "of them, in the version of this program, for the Python that Spark runs there "
            "(spark.pyspark.python, or PYSPARK_PYTHON)."
        )


class SparkJobError(DetectorError):
    """A job of the audit failed on Spark; the cause has Spark's own error."""


def explain(error: BaseException) -> BaseException:
    """Return the error that says what to do about one of PySpark, Java or gRPC."""
    if isinstance(error, DetectorError) or not isinstance(error, Exception):
        return error
    text = f"{type(error).__name__} {error}"
    if missing := _NO_MODULE.search(text):
        return ExecutorsLackPackageError(missing[1])
    if "UNAVAILABLE" in text or "Connection refused" in text:
        return SparkUnreachableError(is_remote=True)
    if NO_FILE_SYSTEM.search(text):
        return NoFileSystemError()
    for pattern, advice in _ADVICE:
        if re.search(pattern, text):
            return SparkJobError(advice)
    return error
