"""The report and the finding that the library returns: the document's, with what can be done there.

The service prints the documents of `detectors.contract` and needs none of this.
"""

import os
from typing import TYPE_CHECKING, Any

from detectors import contract
from detectors.html import page
from detectors.html.findings import show_finding, show_report
from detectors.report import comparing, explaining, tables
from detectors.rules import Thresholds
from detectors.rules.methods import METHODS
from detectors.wording.figures import percent, usd
from detectors.wording.names import detector_name

if TYPE_CHECKING:
    import polars as pl


class Finding(contract.Finding, frozen=True, kw_only=True):
    """A finding that a notebook can show."""

    def __repr__(self) -> str:
        """One line, since the evidence would fill a notebook's page."""
        name = detector_name(self.detector, METHODS)
        return (
            f"<Finding {self.id} {name} on {self.route!r}, {self.model!r}: "
            f"{usd(self.monthly_cost_impact_usd)}/month>"
        )

    def _repr_html_(self) -> str:
        return show_finding(self, METHODS)


class Report(contract.Report, frozen=True, kw_only=True):
    """A report that can be shown, saved, explained, compared and turned into a dataframe."""

    findings: tuple[Finding, ...]
    thresholds: Thresholds

    def __repr__(self) -> str:
        """One line; `to_json` returns the whole document."""
        return (
            f"<Report on {self.audit.records:,} calls: "
            f"{usd(self.audit.projected_spend_usd)}/month, "
            f"{percent(self.audit.savings_pct)} avoidable; findings: {len(self.findings):,}>"
        )

    def _repr_html_(self) -> str:
        return show_report(self)

    def to_polars(self) -> "pl.DataFrame":
        """Return the findings as a Polars frame, one row each, in the report's order.

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
        return tables.to_polars(self)

    def to_pandas(self) -> Any:
        """Return the findings as a pandas frame: the same rows and columns as `to_polars`.

        Returns
        -------
        pandas.DataFrame
            Shape (findings, 14).

        Raises
        ------
        ModuleNotFoundError
            pandas is not installed; this library does not install it.
        """
        return tables.to_pandas(self)

    def save(self, file: "str | os.PathLike[str]") -> None:
        """Write the report to a file: a self-contained page, or the document as JSON.

        Parameters
        ----------
        file : path
            Ends in `.html` or `.json`. An existing file is replaced.

        Raises
        ------
        ValueError
            The name has another ending.
        OSError
            The file cannot be written.
        """
        page.save(self, file)

    def explain(self, finding_id: str) -> explaining.Explanation:
        """Explain how we calculated the dollars of one finding, with its own numbers.

        Parameters
        ----------
        finding_id : str
            As in `finding.id`, ``"d2-001"``.

        Returns
        -------
        Explanation
            Prints as text, and renders in a notebook.

        Raises
        ------
        KeyError
            The report has no such finding; the message names similar ids.
        """
        return explaining.explain(self, finding_id)

    def compare(self, earlier: contract.Report) -> comparing.Comparison:
        """List what has changed since an earlier report on the same traffic.

        Two reports seldom cover equally many days, so figures are per month; realized savings of
        fixed findings are also stated for the days of this report.

        Parameters
        ----------
        earlier : Report
            The report to compare with.

        Returns
        -------
        Comparison
            Every finding of either report as new, worse, better, unchanged, fixed, or gone with its
            traffic; prints as text, and renders in a notebook.
        """
        return comparing.compare(self, earlier)
