"""Child processes that never outlive their owner: a supervisor process and a handle to it."""

from service.operations.local.processes.handle import Supervisor, SupervisorError
from service.operations.local.processes.program import Probe, Program, Status

__all__ = ["Probe", "Program", "Status", "Supervisor", "SupervisorError"]
