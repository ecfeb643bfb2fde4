"""What every process of the service begins with: its log, its counters, reports, traces."""

from service.config import Config
from service.core.logs import configure_logging
from service.core.telemetry.error_reports import flush_reports, start_reports
from service.core.telemetry.shared_counters import count_together
from service.core.telemetry.traces import flush_traces, start_traces


def begin_process(config: Config) -> None:
    """Let operators see this process. It may fork afterwards: nothing here starts a thread."""
    configure_logging(config.log_level)
    count_together(config)
    start_reports(config)
    start_traces(config)


def end_process() -> None:
    """Send what operators should still see, before a process ends without its exit handlers."""
    flush_reports()
    flush_traces()
