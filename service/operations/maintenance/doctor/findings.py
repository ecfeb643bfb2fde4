"""What a check finds: one line, and what to do."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from detectors.wording.figures import counted

OK, WARN, FAIL = "ok", "warn", "fail"
STATUSES: Final = (OK, WARN, FAIL)  # in the order of the exit codes


class Finding(NamedTuple):
    """The result of a check. Neither text contains a secret, an address or an account's data."""

    area: str
    status: str
    message: str
    advice: str = ""


class Area:
    """Findings of one area."""

    def __init__(self, name: str) -> None:
        self._name = name

    def ok(self, message: str) -> Finding:
        return Finding(self._name, OK, message)

    def warn(self, message: str, advice: str) -> Finding:
        return Finding(self._name, WARN, message, advice)

    def fail(self, message: str, advice: str) -> Finding:
        return Finding(self._name, FAIL, message, advice)

    def judge(
        self, message: str, advice: str, *, warns: bool = False, fails: bool = False
    ) -> Finding:
        """Return the message as a failure or a warning, with what to do, or that it is fine."""
        if fails:
            return self.fail(message, advice)
        return self.warn(message, advice) if warns else self.ok(message)


Check = Callable[[], Iterable[Finding]]


def run_check(name: str, check: Check) -> Iterator[Finding]:
    """Yield what a check finds. An error is a finding, by its type: its text may have a secret."""
    try:
        yield from check()
    except Exception as error:
        message = f"this check failed with {type(error).__name__}"
        yield Area(name).fail(message, "look for its cause in the other lines and in the logs")


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 if everything is fine, 1 after a warning, 2 after a failure."""
    return max((STATUSES.index(finding.status) for finding in findings), default=0)


def days_and_hours(seconds: float) -> str:
    """Return a duration as a person says it: 3 days, 5 hours, 20 minutes or 12 seconds."""
    for name, size in (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)):
        number = int(seconds // size)
        if number >= 1 or size == 1:
            return counted(number, name)
    raise AssertionError


# The clocks of the machines, which leases, signatures and links rely on.
_CLOCKS: Final = Area("clocks")
_TOLERATED_SECONDS: Final = 2.0
# Webhooks are refused at five minutes.
_BROKEN_SECONDS: Final = 60.0


def compare_clock(name: str, theirs: float, ours: float) -> Finding:
    """Compare a server's clock with this machine's; both in seconds since 1970."""
    gap = abs(theirs - ours)
    ahead = "ahead of" if theirs > ours else "behind"
    words = "agrees with" if gap < _TOLERATED_SECONDS else f"is {days_and_hours(gap)} {ahead}"
    return _CLOCKS.judge(
        f"{name}'s clock {words} this machine's",
        "synchronize both with NTP (systemd-timesyncd or chrony)",
        warns=gap >= _TOLERATED_SECONDS,
        fails=gap > _BROKEN_SECONDS,
    )
