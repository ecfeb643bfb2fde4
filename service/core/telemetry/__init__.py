"""What operators see of the processes: counters, traces, reports of errors, bounded logs."""
