"""Child processes that never outlive their owner: a supervisor process and a handle to it."""
