"""The errors that `detectors` raises. Messages say what was expected and never echo input."""


class DetectorError(Exception):
    """Base of everything this library raises on purpose."""


class UnreadableLogError(DetectorError):
    """The bytes are none of the three log formats, or break off or decode wrongly."""


class ContractError(DetectorError):
    """The counts-only contract is broken: a field outside the record schema is present.

    Attributes
    ----------
    offenders : tuple of str
        Where it happened and which fields, e.g. ``line 3: messages``; at most 10, never a value.
    """

    def __init__(self, message: str, offenders: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.offenders = offenders


class TooFewValidRowsError(DetectorError):
    """Less than half of the rows are valid, so the audit would mislead."""

    def __init__(self, valid_pct: float, minimum_pct: float) -> None:
        super().__init__(
            f"only {valid_pct:.1f} % of the rows are valid; an audit needs {minimum_pct:.0f} %"
        )
        self.valid_pct = valid_pct
