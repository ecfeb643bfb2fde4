"""One value of a column of times, where an engine holds Python's own objects."""

from detectors.formats.fields import EPOCH, MICROSECOND, read_moment


def find_microseconds(value: object) -> int | None:
    """Microseconds since 1970 in UTC; none for what is no time of a call."""
    try:
        return (read_moment(value) - EPOCH) // MICROSECOND
    except (ValueError, OverflowError):
        return None
