"""Wake-ups over Redis. They carry ids and decide nothing: the row does."""

from service.jobs.process import run_mail_worker, run_worker
from service.jobs.queues import AuditQueues

__all__ = ["AuditQueues", "run_mail_worker", "run_worker"]
