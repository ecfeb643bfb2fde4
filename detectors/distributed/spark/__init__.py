"""Audits on Spark: of a caller's frame, and of an account's files."""

from detectors.distributed.spark.auditing import audit, gather, opened
from detectors.distributed.spark.reasons import explain
from detectors.distributed.spark.running import Jobs
from detectors.distributed.spark.tasks import Setting, find_versions

__all__ = ["Jobs", "Setting", "audit", "explain", "find_versions", "gather", "opened"]
