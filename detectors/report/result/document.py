"""The report and the finding that the library returns: the document's types, with methods.

The service renders the documents of `detectors.contract` and does not need these methods. Pages,
charts, explanations and comparisons are imported by the methods that use them: an audit doesn't.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import polars as pl

from detectors import contract
from detectors.errors import CallsUnavailableError
from detectors.report.result.calls import CallSource
from detectors.rules import Thresholds
from detectors.rules.methods import METHODS
from detectors.wording.figures import percent, usd
from detectors.wording.impact import impact_alone
from detectors.wording.names import detector_name
from detectors.wording.projection import per_month

if TYPE_CHECKING:
    from detectors.report.result.comparing import Comparison
    from detectors.report.result.explaining import Explanation

_COLUMNS: Final = pl.Schema(
    {
        "id": pl.String(),
        "detector": pl.String(),
        "kind": pl.String(),
        "route": pl.String(),
        "provider": pl.String(),
        "model": pl.String(),
        "calls": pl.Int64(),
        "severity": pl.String(),
        "confidence": pl.String(),
        "monthly_cost_impact_usd": pl.Float64(),
        "impact_low": pl.Float64(),
        "impact_high": pl.Float64(),
        "observed_cost_impact_usd": pl.Float64(),
        "first_seen": pl.String(),
        "last_seen": pl.String(),
        "suggested_model": pl.String(),
        "fix": pl.String(),
        "formula": pl.String(),
    }
)


class Finding(contract.Finding, frozen=True, kw_only=True):
    """A finding that renders in a notebook."""

    def __repr__(self) -> str:
        """Return one line, because the evidence would fill a page."""
        name = detector_name(self.detector, METHODS)
        return f"<Finding {self.id} {name} on {self.route!r}, {self.model!r}: {impact_alone(self)}>"

    def _repr_html_(self) -> str:
        from detectors.html.findings import show_finding

        return show_finding(self, METHODS)


_CALLS = "calls_of_findings"  # not a field of the document


class Report(contract.Report, frozen=True, kw_only=True, dict=True):
    """A report that renders in a notebook, and can be saved, explained, compared and converted."""

    findings: tuple[Finding, ...]
    thresholds: Thresholds

    def __repr__(self) -> str:
        """Return one line; `to_json` returns the document."""
        return (
            f"<Report on {self.audit.records:,} calls: "
            f"{usd(self.audit.projected_spend_usd)}{per_month(self.audit)}, "
            f"{percent(self.audit.savings_pct)} avoidable; findings: {len(self.findings):,}>"
        )

    def _repr_html_(self) -> str:
        from detectors.html.findings import show_report

        return show_report(self)

    def to_polars(self) -> pl.DataFrame:
        """Return the findings as a Polars frame, one row each, in the report's order.

        Returns
        -------
        polars.DataFrame
            Shape (findings, 18). Dollars are floats; `suggested_model` is null if none is
            suggested; the other columns are those of `Finding`, without evidence.

        Examples
        --------
        >>> import detectors
        >>> detectors.audit([]).to_polars().shape
        (0, 18)
        """
        return pl.DataFrame(self._columns(), schema=_COLUMNS)

    def to_pandas(self) -> Any:
        """Return the findings as a pandas frame: the same rows and columns as `to_polars`.

        Returns
        -------
        pandas.DataFrame
            Shape (findings, 18).

        Raises
        ------
        ModuleNotFoundError
            pandas is not installed; this library does not install it.
        """
        import pandas as pd  # type: ignore[import-untyped]  # optional

        return pd.DataFrame(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        return {
            name: [
                float(getattr(finding, name) or 0)
                if kind == pl.Float64()
                else getattr(finding, name)
                for finding in self.findings
            ]
            for name, kind in _COLUMNS.items()
        }

    def save(self, file: "str | os.PathLike[str]") -> None:
        """Write the report to a file: a self-contained page, or the document as JSON.

        Parameters
        ----------
        file : path
            A name that ends in `.html` or `.json`. An existing file is replaced.

        Raises
        ------
        ValueError
            The name has another ending.
        OSError
            The file cannot be written.
        """
        from detectors.html import page

        page.save(self, file)

    def calls(self, finding: Finding | str) -> pl.DataFrame:
        """Return every call behind a finding, with the numbers that its saving came from.

        Parameters
        ----------
        finding : Finding or str
            A finding of this report, or its ID, such as ``"d2-001"``.

        Returns
        -------
        polars.DataFrame
            One row per call in time order: request ID, time, counts, rates, what the formula
            compares the call with, cost and saving. The savings add up to
            `finding.observed_cost_impact_usd`.

        Raises
        ------
        KeyError
            The report has no such finding.
        CallsUnavailableError
            The report was read from a document, or its audit kept no calls.
        """
        return self.collect_calls([finding if isinstance(finding, str) else finding.id])[0]

    def collect_calls(self, finding_ids: Sequence[str]) -> "list[pl.DataFrame]":
        """Return the calls of several findings, as `calls` does for one."""
        from detectors.report.result import explaining

        for finding_id in finding_ids:
            explaining.find(self, finding_id)
        return find_calls(self).collect(finding_ids)

    def explain(self, finding_id: str) -> "Explanation":
        """Explain how we calculated the dollars of one finding, with its own numbers.

        Parameters
        ----------
        finding_id : str
            The `finding.id`, such as ``"d2-001"``.

        Returns
        -------
        Explanation
            Prints as text, and renders in a notebook.

        Raises
        ------
        KeyError
            The report has no such finding; the message lists similar IDs.
        """
        from detectors.report.result import explaining

        return explaining.explain(self, finding_id)

    def compare(self, earlier: contract.Report) -> "Comparison":
        """List the changes since an earlier report on the same traffic.

        Figures are per month, because two reports rarely cover the same number of days; realized
        savings are also given for the days of this report.

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
        from detectors.report.result import comparing

        return comparing.compare(self, earlier)


def find_calls(report: Report) -> CallSource:
    """Return where the calls of a report's findings can be read.

    Raise `CallsUnavailableError` if its audit kept none.
    """
    source: CallSource | None = report.__dict__.get(_CALLS)
    if source is None:
        raise CallsUnavailableError
    return source


def attach_calls(report: Report, source: CallSource) -> None:
    """Let the report return the calls behind its findings."""
    report.__dict__[_CALLS] = source


# While one thread imports, as for the contract's own report.
msgspec.json.Decoder(Report)
