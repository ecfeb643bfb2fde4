"""Cases of the detectors as data: rows of a TOML file in, what each detector flags out."""

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from detectors import Thresholds
from detectors.engine import Calls, attach
from detectors.prices.book import PriceBook
from detectors.prices.calls import number_groups, price_labelled, read_labels
from detectors.prices.table import Cells
from detectors.rules import DETECTORS
from detectors.rules.detector import CONDITIONAL, INFORMATIONAL, VERIFIED, Detector, Facts, Kind
from detectors.rules.norms import count_lengths, find_norms, list_routes

FOLDER = Path(__file__).parent / "cases"
# All cases play from this moment on, at the prices of that day.
START = datetime(2026, 11, 2, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EMPTY = {
    "service_tier": "",
    "endpoint": "",
    "request_id": "",
    "tag": "",
    "prefix_hash": "",
    "cached_tokens": 0,
    "cache_write_tokens": 0,
    "declared_max_tokens": 0,
    "in_window": True,
}

# Columns that a frame has only where some call has a value.
_OPTIONAL = {
    "cache_write_1h_tokens": 0,
    "reasoning_tokens": 0,
    "prefix_hash_16k": "",
    "prefix_hash_64k": "",
    "session_id": "",
    "latency_ms": None,
}


@dataclass(frozen=True)
class Found:
    """The flagged calls of one kind, what they save in US dollars, and the ends of its range."""

    calls: int
    usd: Decimal
    low: Decimal
    high: Decimal
    confidence: str


# Kind, route, and whether it is reported as a finding.
Key = tuple[str, str, bool]


@dataclass(frozen=True)
class Case:
    slug: str
    name: str
    records: list[dict[str, Any]]
    finds: dict[Key, Found]

    def __str__(self) -> str:
        return f"{self.slug}: {self.name}"


def read_cases() -> list[Case]:
    return [case for path in sorted(FOLDER.glob("*.toml")) for case in _read(path)]


def _read(path: Path) -> Iterator[Case]:
    table = tomllib.loads(path.read_text("utf-8"))
    for entry in table["case"]:
        records = [
            record
            for row in entry["rows"]
            for record in _records(_EMPTY | table["defaults"] | entry.get("call", {}) | row)
        ]
        given = {name for record in records for name in record} & _OPTIONAL.keys()
        absent = {name: _OPTIONAL[name] for name in _OPTIONAL if name in given}
        yield Case(
            slug=path.stem,
            name=entry["name"],
            records=[absent | record for record in records],
            finds=dict(_found(path.stem, line, table.get("range", {})) for line in entry["finds"]),
        )


def _found(slug: str, entry: dict[str, Any], ranges: dict[str, Any]) -> tuple[Key, Found]:
    """Confidence is that of the first kind of this name, the range that of its table."""
    name, is_reported = entry["kind"], entry.get("is_reported", True)
    kinds = [kind for kind in find_detector(slug).kinds if kind.name == name]
    confidence = entry.get("confidence", kinds[0].confidence)
    usd = Decimal(entry["usd"])
    low, high = (
        Decimal(entry[end]) if end in entry else usd * _multiple(confidence, name, end, ranges)
        for end in ("low", "high")
    )
    key = (name, entry["route"], is_reported)
    return key, Found(entry["calls"], usd, low, high, confidence)


def _multiple(confidence: str, kind: str, end: str, ranges: dict[str, Any]) -> Decimal:
    """An end of the range as a multiple of the savings; only estimates differ by kind."""
    usual = {VERIFIED: (1, 1), CONDITIONAL: (0, 1), INFORMATIONAL: (0, 0)}
    if confidence in usual:
        return Decimal(usual[confidence][end == "high"])
    return Decimal(ranges[kind].get(end, 1))


def _records(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """`times` copies of a row, the first `at` seconds after the start and one `every` so many."""
    times, at, every = row.pop("times", 1), row.pop("at", 0), row.pop("every", 1)
    for place in range(times):
        seconds = Decimal(str(at)) + place * Decimal(str(every))
        ts = START + timedelta(microseconds=int(seconds * 1_000_000))
        at_us = (ts - _EPOCH) // timedelta(microseconds=1)
        yield row | {"ts": ts, "at_us": at_us}


def group_cases(cases: Iterable[Case]) -> list[list[Case]]:
    """Group the cases that a frame can hold together: those with the same columns."""
    groups = defaultdict[object, list[Case]](list)
    for case in cases:
        groups[frozenset(case.records[0])].append(case)
    return [*groups.values()]


def flag_calls(cases: Sequence[Case], book: PriceBook) -> list[dict[Key, Found]]:
    """Return what the detector of each case finds in it; the cases are the logs of one frame.

    Planning the queries takes most of the time, so many cases take little more than one.
    """
    rows = [row | {"log": log} for log, case in enumerate(cases) for row in case.records]
    frame = pl.DataFrame(rows, infer_schema_length=None).cast({"log": pl.Int32})
    keys, thresholds = ("log",), Thresholds()
    given = frame.drop("ts").lazy()
    labelled = read_labels(given, keys)
    groups = number_groups(labelled, keys)
    priced = price_labelled(labelled, groups, Cells.of(labelled, book), keys)
    labels = groups.select("log", "group", "route_label")
    counted = attach(priced.calls, labels.drop("route_label"), "group")
    lengths, routes = count_lengths(counted).collect(), list_routes(counted, groups, 99).collect()
    facts = Facts(thresholds, find_norms(lengths, routes, thresholds))
    calls = priced.arrange([(0, 2**62)] * len(cases)).read()
    found: list[dict[Key, Found]] = [{} for _ in cases]
    for slug in {case.slug: None for case in cases}:
        for row in _sum_flagged(find_detector(slug), calls, labels, facts):
            if cases[row["log"]].slug == slug:
                key, line = _sum_up(row, find_detector(slug).kinds[row["kind"]])
                found[row["log"]][key] = line
    return found


def _sum_flagged(
    detector: Detector, calls: Calls, labels: pl.DataFrame, facts: Facts
) -> list[dict[str, Any]]:
    flagged = detector.find(calls, facts).collect()
    dollars = pl.col("saving_usd", "low_usd", "high_usd").sum()
    sums = flagged.group_by("kind", "group").agg(pl.len().alias("calls"), dollars)
    return sums.join(labels.cast({"group": sums["group"].dtype}), on="group").to_dicts()


def _sum_up(row: dict[str, Any], kind: Kind) -> tuple[Key, Found]:
    usd, low, high = (
        round(Decimal(row[name]), 12) for name in ("saving_usd", "low_usd", "high_usd")
    )
    # A finding claims at least nothing and at most what it states.
    low = min(max(low, Decimal(0)), usd)
    key = (kind.name, row["route_label"], kind.is_reported)
    return key, Found(row["calls"], usd, low, high, kind.confidence)


def find_detector(slug: str) -> Detector:
    return next(detector for detector in DETECTORS if detector.id.partition("_")[2] == slug)
