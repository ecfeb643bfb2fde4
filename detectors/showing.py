"""What reports and findings can do in a notebook, as methods of theirs.

The modules behind them read the contract, and some load a dataframe library, which the service must
not; so they are found when a method is first called, and not before.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detectors.contract import Report
    from detectors.notebook.comparing import Comparison
    from detectors.notebook.explaining import Explanation


def _call(module: str, function: str, *arguments: object) -> Any:
    return getattr(import_module(f"detectors.notebook.{module}"), function)(*arguments)


class ShownFinding:
    """The methods of a finding."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The finding as a notebook shows it: what, where, worth what, how to fix it, evidence."""
        return str(_call("cells", "show_finding", self))


class ShownReport:
    """The methods of a report."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The report as a notebook shows it: headline, ranked bars, table."""
        return str(_call("cells", "show_report", self))

    def to_polars(self) -> Any:
        """The findings as a Polars frame, one row each, in the report's order.

        Returns
        -------
        polars.DataFrame
            Shape (findings, 14). `monthly_cost_impact_usd` and `observed_cost_impact_usd` are US
            dollars as floats; `suggested_model` is null where none is suggested; the other columns
            are as `Finding` has them. Without evidence.

        Examples
        --------
        >>> import detectors
        >>> detectors.audit([]).to_polars().shape
        (0, 14)
        """
        return _call("tables", "to_polars", self)

    def to_pandas(self) -> Any:
        """The findings as a pandas frame: the same rows and columns as `to_polars`.

        Returns
        -------
        pandas.DataFrame
            Shape (findings, 14).

        Raises
        ------
        ModuleNotFoundError
            pandas is not installed; this library does not bring it along.
        """
        return _call("tables", "to_pandas", self)

    def save(self, file: "str | os.PathLike[str]") -> None:
        """Write the report to a file: a page that needs no other file, or the document as JSON.

        Parameters
        ----------
        file : path
            Ends in `.html` or `.json`. An existing file is replaced.

        Raises
        ------
        ValueError
            The name ends otherwise.
        OSError
            The file cannot be written.
        """
        _call("page", "save", self, file)

    def explain(self, finding_id: str) -> "Explanation":
        """How the dollars of one finding were reckoned, with its own numbers.

        Parameters
        ----------
        finding_id : str
            As in `finding.id`, ``"d2-001"``.

        Returns
        -------
        Explanation
            Prints as text, and shows itself in a notebook.

        Raises
        ------
        KeyError
            The report has no such finding; the message names some that it has.
        """
        explanation: Explanation = _call("explaining", "explain", self, finding_id)
        return explanation

    def compare(self, earlier: "Report") -> "Comparison":
        """What has changed since an earlier report on the same traffic.

        Two reports seldom span equally many days, so everything is stated for equally many: per
        month, and for what was fixed also over the days of this report.

        Parameters
        ----------
        earlier : Report
            The report to compare with.

        Returns
        -------
        Comparison
            Every finding of either as new, worse, better, unchanged, fixed, or gone with its
            traffic; prints as text, and shows itself in a notebook.
        """
        comparison: Comparison = _call("comparing", "compare", self, earlier)
        return comparison
