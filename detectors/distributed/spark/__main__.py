"""python -m detectors.distributed.spark: check that a cluster can audit.

The cluster is that of SPARK_REMOTE or SPARK_MASTER. It must answer, and its executors must have
what an audit needs.
"""

import os
import pickle
import sys

from detectors.distributed.spark import tasks
from detectors.distributed.spark.auditing import in_arrow
from detectors.distributed.spark.running import Jobs
from detectors.distributed.tasks import load
from detectors.errors import DetectorError
from detectors.frames.spark import opened_session, use_own_python


def check_cluster(remote: str, master: str) -> str:
    """Run a small job, and return the versions that an executor has.

    Raises
    ------
    DetectorError
        The cluster is away, or an executor lacks a package or has another version; the message
        says what to do.
    """
    with opened_session(remote, master) as session:
        use_own_python(session)
        frame = in_arrow(session.range(1), tasks.report_versions, tasks.find_versions())
        table = Jobs(session, 1, None).collect(frame, "check the executors")
        batches = table.to_batches()
        for content in tasks.join_pieces(batches, tasks.ERROR).values():
            raise load(content, DetectorError)
        (found,) = tasks.join_pieces(batches, tasks.RESULT).values()
        return str(pickle.loads(found))  # noqa: S301 - a text of our own executor


def main() -> int:
    """Print the versions of an executor, or what to do."""
    try:
        master = os.environ.pop("SPARK_MASTER", "")
        versions = check_cluster(os.environ.get("SPARK_REMOTE", ""), master or "local[1]")
    except DetectorError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    sys.stdout.write(f"Spark's executors have {versions}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
