"""The errors that `detectors` raises. Messages say what was expected and never echo input."""


class DetectorError(Exception):
    """Base of everything this library raises on purpose."""


class UnreadableLogError(DetectorError):
    """The bytes are none of the three log formats, or break off or decode wrongly."""


class LogTooLargeError(DetectorError):
    """The log holds more bytes, once unpacked, than the caller allows."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(f"the log is larger than {max_bytes:,} bytes unpacked")
        self.max_bytes = max_bytes


class MalformedJSONError(DetectorError):
    """A body that is not JSON: wrong syntax, wrong encoding, or nested beyond reason."""


class NestedTooDeeplyError(MalformedJSONError):
    """JSON, perhaps, but nested beyond anything that could be read."""

    def __init__(self) -> None:
        super().__init__("not JSON as expected: nested too deeply")


class TooManyRecordsError(DetectorError):
    """A batch of more records than one request may carry."""

    def __init__(self, count: int, maximum: int) -> None:
        super().__init__(f"{count:,} records in one batch; at most {maximum:,} are accepted")
        self.count = count
        self.maximum = maximum


class ContractError(DetectorError):
    """Data outside the contract: a field outside the record schema, or a batch's bad record.

    Attributes
    ----------
    offenders : tuple of str
        Where it happened and which fields, e.g. ``line 3: unknown fields messages``; at most 10,
        never a value.
    """

    def __init__(self, message: str, offenders: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.offenders = offenders


class TooFewValidRowsError(DetectorError):
    """Less than half of the rows are valid, so the audit would mislead.

    `reason` is what most of the others are invalid for; it never holds a value of theirs.
    """

    def __init__(self, valid_pct: float, minimum_pct: float, reason: str = "") -> None:
        super().__init__(
            f"only {valid_pct:.1f}% of the rows are valid; an audit needs {minimum_pct:.0f}%"
            + (f"; most often: {reason}" if reason else "")
        )
        self.valid_pct = valid_pct


class PriceTermsError(DetectorError, ValueError):
    """A discount or an override that cannot be what was meant; the message says which and why."""
