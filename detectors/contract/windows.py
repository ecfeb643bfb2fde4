"""Windows of plans' limits: lengths of time, as agents report them.

The models of the service need this and nothing of `detectors.formats`, so that processes that read
no logs (mail, notices, sweeper, metrics) don't load its readers.
"""


def to_full_hours(minutes: int) -> int:
    """Return full hours for a length of nearly so many, such as Codex's 299 and 10,079 minutes."""
    full = (minutes + 30) // 60 * 60
    return full if 100 * abs(full - minutes) <= minutes else minutes
