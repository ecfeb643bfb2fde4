"""What a check finds: one line, and what to do."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from detectors.wording.figures import counted

OK, WARN, FAIL = "ok", "warn", "fail"
STATUSES: Final = (OK, WARN, FAIL)  # in the order of the exit codes


class Diagnosis(NamedTuple):
    """The result of a check. Neither text contains a secret, an address or an account's data."""

    area: str  # that of its check, if it is empty
    status: str
    message: str
    advice: str = ""


Check = Callable[[], Iterable[Diagnosis]]


def ok(message: str) -> Diagnosis:
    return Diagnosis("", OK, message)


def warn(message: str, advice: str) -> Diagnosis:
    return Diagnosis("", WARN, message, advice)


def fail(message: str, advice: str) -> Diagnosis:
    return Diagnosis("", FAIL, message, advice)


def judge(message: str, advice: str, *, warns: bool = False, fails: bool = False) -> Diagnosis:
    """Return the message as a failure or a warning, with what to do, or that it is fine."""
    if fails:
        return fail(message, advice)
    return warn(message, advice) if warns else ok(message)


def run_check(area: str, check: Check) -> Iterator[Diagnosis]:
    """Yield what a check finds. An error is a finding, by its type: its text may have a secret."""
    try:
        for finding in check():
            yield finding._replace(area=finding.area or area)
    except Exception as error:
        message = f"this check failed with {type(error).__name__}"
        advice = "look for its cause in the other lines and in the logs"
        yield Diagnosis(area, FAIL, message, advice)


def exit_code(findings: Iterable[Diagnosis]) -> int:
    """Return 0 if everything is fine, 1 after a warning, 2 after a failure."""
    return max((STATUSES.index(finding.status) for finding in findings), default=0)


def days_and_hours(seconds: float) -> str:
    """Return a duration as a person says it: 3 days, 5 hours, 20 minutes or 12 seconds."""
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number = int(seconds // size)
        if number >= 1 or size == 1:
            return counted(number, name)
    raise AssertionError


# Of the machines' clocks, which leases, signatures and links rely on.
_TOLERATED_SECONDS: Final = 2.0
# Webhooks are refused at five minutes.
_BROKEN_SECONDS: Final = 60.0


def compare_clock(name: str, theirs: float, ours: float) -> Diagnosis:
    """Compare a server's clock with this machine's; both in seconds since 1970."""
    gap = abs(theirs - ours)
    ahead = "ahead of" if theirs > ours else "behind"
    words = "agrees with" if gap < _TOLERATED_SECONDS else f"is {days_and_hours(gap)} {ahead}"
    found = judge(
        f"{name}'s clock {words} this machine's",
        "synchronize both with NTP (systemd-timesyncd or chrony)",
        warns=gap >= _TOLERATED_SECONDS,
        fails=gap > _BROKEN_SECONDS,
    )
    return found._replace(area="clocks")
