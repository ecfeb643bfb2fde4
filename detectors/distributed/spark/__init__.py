"""Audits on Spark: of a caller's frame, and of an account's files."""

from detectors.distributed.spark.auditing import audit, opened
from detectors.distributed.spark.checking import check_cluster
from detectors.distributed.spark.reasons import explain
from detectors.distributed.spark.running import Jobs
from detectors.distributed.spark.tasks import Setting, find_versions

__all__ = ["Jobs", "Setting", "audit", "check_cluster", "explain", "find_versions", "opened"]
