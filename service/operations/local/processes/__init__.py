"""Child processes that never outlive their owner: a supervisor process and a handle to it."""

from service.operations.local.processes.handle import (
    OrdinaryUser,
    Probe,
    Program,
    Status,
    Supervisor,
    SupervisorError,
)

__all__ = ["OrdinaryUser", "Probe", "Program", "Status", "Supervisor", "SupervisorError"]
