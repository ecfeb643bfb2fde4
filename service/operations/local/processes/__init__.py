"""Child processes that never outlive their owner: a supervisor process and a handle to it."""

from service.operations.local.processes.handle import Supervisor, SupervisorError
from service.operations.local.processes.program import Program, Status

__all__ = ["Program", "Status", "Supervisor", "SupervisorError"]
