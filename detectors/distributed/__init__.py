"""Audits on several processes or machines.

>>> from detectors import distributed
>>> report = distributed.audit("usage.jsonl", map=executor.map, scratch="/shared/scratch")
"""

from detectors.distributed.arrays import JobArray, JobsLostError
from detectors.distributed.mapped import audit
from detectors.distributed.tasks import ForkedProcessError

__all__ = ["ForkedProcessError", "JobArray", "JobsLostError", "audit"]
