"""The errors that `detectors` raises. Messages describe valid input and never repeat input."""

import re
from copyreg import __newobj__  # type: ignore[attr-defined]  # as pickle itself makes objects
from typing import Any, Final

_NO_ROWS = "No rows could be read"
_RUST_ERROR: Final = re.compile(r"\(os error (\d+)\)")  # how Polars words the system's errors


class DetectorError(Exception):
    """The base class of all errors of this library.

    Attributes
    ----------
    columns : tuple of str
        The header of a CSV whose columns need a mapping; empty for any other error.
    head : bytes
        The beginning of a file in a format that we don't know, from which a mapping is proposed.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message and attributes, whatever arguments the error takes."""
        return __newobj__, (type(self), *self.args), self.__dict__

    columns: tuple[str, ...] = ()
    head: bytes = b""


class UnreadableLogError(DetectorError):
    """The file is in no known log format, damaged or incomplete."""


class CutOffLogError(UnreadableLogError):
    """A JSON array without its end."""


class ColumnMappingError(DetectorError, ValueError):
    """A mapping of columns that is wrong, or that does not fit the file."""


class LogTooLargeError(DetectorError):
    """The log is larger, once unpacked, than the caller allows."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(
            f"The log is larger than {max_bytes:,} bytes unpacked: split it into smaller files."
        )
        self.max_bytes = max_bytes


class MalformedJSONError(DetectorError):
    """A body that is not JSON: wrong syntax, wrong encoding, or nested too deeply."""


class NestedTooDeeplyError(MalformedJSONError):
    """JSON that is nested too deeply to be read."""

    def __init__(self) -> None:
        super().__init__("This is not JSON that we can read: it is nested too deeply.")


class TooComplexError(DetectorError):
    """JSON with more values than we decode at once; no record or call of counts has as many."""

    def __init__(self, max_values: int) -> None:
        super().__init__(f"This is JSON with more than {max_values:,} values.")


class TooManyRecordsError(DetectorError):
    """A batch with more records than one request may have.

    `count` is where counting stopped if `is_exact` is false.
    """

    def __init__(self, count: int, maximum: int, *, is_exact: bool = True) -> None:
        counted = f"{count:,}" if is_exact else f"more than {count:,}"
        super().__init__(f"The batch has {counted} records. Send at most {maximum:,} per request.")
        self.count = count
        self.maximum = maximum


class ContractError(DetectorError):
    """Data outside the contract: a field outside the record schema, or a batch's bad record.

    Attributes
    ----------
    offenders : tuple of str
        Location and fields, such as ``line 3: unknown fields messages``; at most 10 locations,
        never a value.
    """

    def __init__(self, message: str, offenders: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.offenders = offenders


class TooFewValidRowsError(DetectorError):
    """Too few rows are valid for an audit.

    `reason` is the most common reason of the invalid rows; it never repeats a value.
    """

    def __init__(self, valid_pct: float, minimum_pct: float, reason: str = "") -> None:
        share = f"Only {valid_pct:.1f}% of the rows could be read" if valid_pct else _NO_ROWS
        minimum = "half" if minimum_pct == 50 else f"{minimum_pct:g}%"
        remedy = f"; fix the most common problem: {reason}" if reason else ""
        super().__init__(f"{share} (at least {minimum} must be){remedy}.")
        self.valid_pct = valid_pct


class PriceTermsError(DetectorError, ValueError):
    """An invalid discount, override or alias; the message names it and what was expected.

    Attributes
    ----------
    where : tuple of str or int
        The keys of a price file that lead to it; empty for the file as a whole.
    """

    def __init__(self, message: str, where: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.where = where


class PriceUpdateError(DetectorError):
    """The published prices could not be fetched, read or stored; the message gives the reason."""


class CallsUnavailableError(DetectorError):
    """The calls behind a report's findings are no longer in memory."""

    def __init__(self) -> None:
        super().__init__(
            "This report has no calls: it was read from a document, or its audit kept none. Audit "
            "the log again, and ask the report that `detectors.audit` returns."
        )


def find_errno(error: BaseException) -> int | None:
    """Return the number of the system's error, which errors of Polars have in their message."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = _RUST_ERROR.search(str(error))
    return int(found[1]) if found else None


class ScratchFullError(DetectorError):
    """The scratch folder of an audit has too little space; `needed` bytes are None if unknown."""

    def __init__(self, folder: str, needed: int | None, free: int) -> None:
        wants = "more space" if needed is None else f"about {needed / 1e9:,.1f} GB"
        super().__init__(
            f"The audit needs {wants} for scratch files in {folder}, which has "
            f"{free / 1e9:,.1f} GB left. Make room there, or name another folder as `scratch`."
        )


class GroupTooLargeError(DetectorError):
    """The calls of a route to one model, which are audited together, don't fit into memory."""

    def __init__(
        self, route: str, provider: str, model: str, calls: int, needed: int, free: int
    ) -> None:
        name = f'Route "{route}"' if route else "Traffic without tag or endpoint"
        super().__init__(
            f"{name} has {calls:,} calls to {model} ({provider}), which are audited together and "
            f"need about {needed / 1e9:,.1f} GB of memory; {free / 1e9:,.1f} GB are free. Audit "
            "fewer days, or give parts of the route tags of their own."
        )
        self.route, self.provider, self.model = route, provider, model


class SourceChangedError(CallsUnavailableError):
    """The calls behind a finding were read again, and are no longer what they were."""

    def __init__(self) -> None:
        DetectorError.__init__(
            self,
            "The source has changed since the audit, so the calls behind the finding can't be "
            "read. Audit it again, and ask the new report.",
        )
