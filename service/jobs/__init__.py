"""Wake-ups over Redis. They carry ids and decide nothing: the audit's row does."""

from service.jobs.process import run_worker
from service.jobs.queues import AuditQueues

__all__ = ["AuditQueues", "run_worker"]
