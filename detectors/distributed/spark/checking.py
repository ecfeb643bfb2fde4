"""Whether a cluster can audit: it answers, and its executors have what an audit needs."""

import pickle

from detectors.distributed.spark import tasks
from detectors.distributed.spark.auditing import in_arrow
from detectors.distributed.spark.running import Jobs
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
            raise tasks.load(content, DetectorError)
        (found,) = tasks.join_pieces(batches, tasks.RESULT).values()
        return str(pickle.loads(found))  # noqa: S301 - a text of our own executor
