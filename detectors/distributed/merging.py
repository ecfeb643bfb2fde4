"""The end of an audit whose parts were audited elsewhere."""

from collections.abc import Callable, Iterable, Sequence

from detectors.frames.usage_log import ReadRows
from detectors.prices.book import PriceBook
from detectors.report.counting import counts
from detectors.report.counting.counts import Counts
from detectors.report.part import AuditFacts, Job, PartResult
from detectors.report.pipeline import Audited, Whole, find_facts
from detectors.report.result.calls import Reopen

# Audits all parts with these facts, and returns their results in order of part.
AuditParts = Callable[[AuditFacts], Sequence[PartResult]]
# Returns what reads the calls of a part again.
FindReopen = Callable[[AuditFacts], Reopen]


def merge(
    log: ReadRows,
    job: Job,
    book: PriceBook,
    counted: Iterable[Counts],
    audit_parts: AuditParts,
    find_reopen: FindReopen | None,
) -> Audited:
    """Add up the counts of all parts, have each audited with the facts, and join the results."""
    added = counts.add_counts(counted)
    records, facts = find_facts([log], added, job.thresholds)
    results = audit_parts(facts)
    reopen = None if find_reopen is None else find_reopen(facts)
    return Whole(records, added, results, book, job.thresholds).report(reopen)
