"""What a check finds: one line, and what to do."""

from collections.abc import Iterable, Iterator
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


def ok(message: str) -> Diagnosis:
    return Diagnosis("", OK, message)


def warn(message: str, advice: str) -> Diagnosis:
    return Diagnosis("", WARN, message, advice)


def fail(message: str, advice: str) -> Diagnosis:
    return Diagnosis("", FAIL, message, advice)


def judge(
    message: str, advice: str, *, warns: bool = False, fails: bool = False, area: str = ""
) -> Diagnosis:
    """Return the message as a failure or a warning, with what to do, or that it is fine."""
    status = FAIL if fails else WARN if warns else OK
    return Diagnosis(area, status, message, "" if status == OK else advice)


def run_check(area: str, check: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
    """Yield what a check finds. An error is a finding, by its type: its text may have a secret."""
    try:
        for finding in check:
            yield finding._replace(area=finding.area or area)
    except Exception as error:
        advice = "look for its cause in the other lines and in the logs"
        yield Diagnosis(area, FAIL, f"this check failed with {type(error).__name__}", advice)


def exit_code(findings: Iterable[Diagnosis]) -> int:
    """Return 0 if everything is fine, 1 after a warning, 2 after a failure."""
    return max((STATUSES.index(finding.status) for finding in findings), default=0)


def say_age(seconds: float) -> str:
    """Return a duration as a person says it: 3 days, 5 hours, 20 minutes or 12 seconds."""
    units = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
    name, size = next((unit for unit in units if seconds >= unit[1]), units[-1])
    return counted(int(seconds // size), name)
