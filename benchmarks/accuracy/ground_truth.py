"""Compare what audits claim with what is known of real traffic.

Azure's services hold no planted waste; of Mooncake's chats it is known what a cache could have
served; months are known where a log goes on. The traces are not part of the project: give their
folder with `--traffic`.
"""

import argparse
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.table import Table

import detectors
from benchmarks.accuracy import projections, traces
from benchmarks.accuracy.traces import Model
from detectors import Report, Thresholds
from detectors.contract import AuditSummary

FLAGSHIPS = (Model("openai", "gpt-4o"), Model("anthropic", "claude-sonnet-4-5"))
CACHING = Model("anthropic", "claude-sonnet-4-5")
MAX_AZURE_PCT = 1.0
CACHED_SHARE = (0.9, 1.1)
LADDER_SHARE = (0.95, 1.05)
MEDIANS = (0.9, 1.1)
MAX_CHANGE = 0.01
HELD = 0.8  # of projections
PER_HOUR = 180
EVERY_CALL = Thresholds(evidence_calls=1_000_000)


def main() -> None:
    folder = _parse_arguments().traffic
    console = Console(width=140)
    if folder is None or not folder.is_dir():
        console.print("Skipped: no folder with traces. Pass one with --traffic DIR.")
        return
    checks = (claims, caching, months, ranges)
    kept = [check(console, folder) for check in checks]
    if not all(kept):
        raise SystemExit("a claim is further from the truth than its limit")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traffic", type=Path)
    return parser.parse_args()


def claims(console: Console, folder: Path) -> bool:
    """Audit both of Azure's services as one account: little of it may be called avoidable."""
    table = Table("Azure 2023, as", "spend", "verified", "estimated", "conditional", "claimed")
    shares = []
    for model in FLAGSHIPS:
        calls = pl.concat([traces.read_azure(folder, name, model) for name in traces.AZURE])
        audit = detectors.audit(calls).audit
        shares.append(audit.savings_pct)
        table.add_row(
            model.name,
            f"${audit.projected_spend_usd:,.2f}",
            f"${audit.verified_savings_usd:,.2f}",
            f"${audit.estimated_savings_usd:,.2f} ({_range(audit)})",
            f"${audit.conditional_savings_usd:,.2f}",
            f"{audit.savings_pct:.2f}%",
        )
    console.print(table)
    return max(shares) <= MAX_AZURE_PCT


def caching(console: Console, folder: Path) -> bool:
    """Compare the tokens that a cache is predicted to serve with those that it would have."""
    served = traces.serve(folder)
    table = Table("Mooncake, hashed by", "predicted tokens", "of the truth", "savings", "range")
    every = tuple(traces.BLOCKS_BY_HASH)
    kept = True
    logs = {"every level": traces.read_ladder(folder, CACHING)}
    for label, hashes in (("three prefixes", every), ("one prefix", every[:1]), ("nothing", ())):
        logs[label] = traces.read_mooncake(folder, CACHING, hashes)
    for label, calls in logs.items():
        report = detectors.audit(calls, thresholds=EVERY_CALL)
        tokens, dollars = _cached_tokens(report), report.audit.estimated_savings_usd
        share = tokens / served.tokens
        low, high = LADDER_SHARE if label == "every level" else CACHED_SHARE
        kept &= low <= share <= high if label != "nothing" else dollars == 0
        table.add_row(
            label,
            f"{tokens:,.0f}",
            f"{share:.3f}",
            f"${dollars:,.2f}",
            _range(report.audit),
        )
    rates = {"input": 3.0, "read": 0.3, "write": 3.75}  # of the model, US dollars per million
    most = served.tokens * (rates["input"] - rates["read"])
    most -= served.written_tokens * (rates["write"] - rates["input"])
    table.add_row("(the truth)", f"{served.tokens:,}", "1.000", f"${most / 1e6:,.2f}", "")
    console.print(table)
    return kept


def _range(audit: AuditSummary) -> str:
    return f"${audit.estimated_savings_low_usd:,.2f} to ${audit.estimated_savings_high_usd:,.2f}"


def _cached_tokens(report: Report) -> float:
    return sum(
        call.prefix_tokens
        for finding in report.findings
        if finding.kind == "uncached_prefix"
        for call in finding.evidence
    )


def months(console: Console, folder: Path) -> bool:
    """Print predicted over true months, by the length of the log."""
    table = Table("predicted / true month", *projections.WINDOWS)
    model = FLAGSHIPS[0]
    hours = {"drawn, a week's rhythm": projections.drawn_hours(PER_HOUR, seed=1)}
    for name in traces.AZURE:
        calls = traces.read_azure(folder, name, model)
        hours[f"{name}, replayed"] = projections.replayed_hours(calls, PER_HOUR, seed=1)
    chats = traces.read_mooncake(folder, model)
    hours[f"{traces.MOONCAKE}, replayed"] = projections.replayed_hours(chats, PER_HOUR, seed=1)
    kept = True
    for label, arrivals in hours.items():
        calls = projections.as_frame(arrivals, model.provider, model.name)
        spreads = projections.backtest(calls)
        kept &= projections.medians_within(list(spreads.values()), *MEDIANS)
        cells = [f"{s.median:.2f} ({s.low:.2f} to {s.high:.2f})" for s in spreads.values()]
        table.add_row(label, *cells)
        for change, share in projections.changes(calls).items():
            kept &= abs(share) < MAX_CHANGE
            console.print(f"{label}: a day {change}: {share:+.3%} of its projection")
    console.print(table)
    return kept


def ranges(console: Console, folder: Path) -> bool:
    """Print how many projections of short logs are inside the range that reports state."""
    table = Table("inside the stated range", *projections.KINDS)
    model, kept = FLAGSHIPS[0], True
    logs = {name: traces.read_azure(folder, name, model) for name in traces.AZURE}
    logs[traces.MOONCAKE] = traces.read_mooncake(folder, model)
    for rhythm, swing in projections.RHYTHMS.items():
        for name, calls in logs.items():
            hours = projections.replayed_hours(calls, PER_HOUR, 1, swing)
            month = projections.as_frame(hours, model.provider, model.name)
            shares = projections.held(month, seed=1)
            kept &= min(shares.values()) >= HELD
            table.add_row(f"{name}, as {rhythm}", *(f"{share:.0%}" for share in shares.values()))
    console.print(table)
    return kept


if __name__ == "__main__":
    main()
