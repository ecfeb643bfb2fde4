"""Cases of the detectors as data: rows of a TOML file in, what each detector flags out."""

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import polars as pl

from detectors import Thresholds
from detectors.engines import Calls, engine_of
from detectors.prices.book import PriceBook
from detectors.prices.calls import arrange, number_groups, price_labelled, read_labels
from detectors.rules import DETECTORS
from detectors.rules.detector import Detector

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

Place = Callable[[pl.DataFrame], Any]


@dataclass(frozen=True)
class Found:
    calls: int
    usd: Decimal
    confidence: str


@dataclass(frozen=True)
class Case:
    """`finds` says for each (kind, route) how many calls are flagged, saving how much."""

    slug: str
    name: str
    records: list[dict[str, Any]]
    finds: dict[tuple[str, str], Found]

    def __str__(self) -> str:
        return f"{self.slug}: {self.name}"


def read_cases() -> list[Case]:
    return [case for path in sorted(FOLDER.glob("*.toml")) for case in _read(path)]


def _read(path: Path) -> Iterator[Case]:
    table = tomllib.loads(path.read_text("utf-8"))
    for entry in table["case"]:
        defaults = _EMPTY | table["defaults"] | entry.get("call", {})
        yield Case(
            slug=path.stem,
            name=entry["name"],
            records=[record for row in entry["rows"] for record in _records(defaults | row)],
            finds={
                (line.get("kind", ""), line["route"]): _found(find_detector(path.stem), line)
                for line in entry["finds"]
            },
        )


def _found(detector: Detector, entry: dict[str, Any]) -> Found:
    """The confidence goes without saying where the kind has but one."""
    usual = next(kind for kind in detector.kinds if kind.name == entry.get("kind", ""))
    confidence = entry.get("confidence", usual.confidence)
    return Found(entry["calls"], Decimal(entry["usd"]), confidence)


def _records(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """`times` copies of a row, the first `at` seconds after the start and one `every` so many."""
    times, at, every = row.pop("times", 1), row.pop("at", 0), row.pop("every", 1)
    for place in range(times):
        seconds = Decimal(str(at)) + place * Decimal(str(every))
        ts = START + timedelta(microseconds=int(seconds * 1_000_000))
        at_us = (ts - _EPOCH) // timedelta(microseconds=1)
        yield row | {"ts": ts, "at_us": at_us}


def flag_calls(
    case: Case, place: Place, book: PriceBook, thresholds: Thresholds | None = None
) -> dict[tuple[str, str], Found]:
    """What the detector of the case finds on the frame that `place` makes of the records."""
    detector = find_detector(case.slug)
    given = nw.from_native(place(pl.DataFrame(case.records))).lazy()
    engine = engine_of(given)
    labelled = read_labels(given)
    groups = number_groups(labelled, engine)
    calls = arrange(price_labelled(labelled, groups, book, engine), engine)
    flagged = _polars(detector.find(calls, thresholds or Thresholds()))
    labels = _polars(groups).select("group", "route_label")
    found: dict[tuple[str, str], Found] = {}
    sums = flagged.group_by("kind", "group").agg(
        pl.len().alias("calls"), pl.col("saving_usd").sum()
    )
    for row in sums.join(labels.cast({"group": sums["group"].dtype}), on="group").to_dicts():
        kind = detector.kinds[row["kind"]]
        usd = round(Decimal(row["saving_usd"]), 12)
        found[kind.name, row["route_label"]] = Found(row["calls"], usd, kind.confidence)
    return found


def find_detector(slug: str) -> Detector:
    return next(detector for detector in DETECTORS if detector.id.partition("_")[2] == slug)


def _polars(calls: Calls) -> pl.DataFrame:
    frame: pl.DataFrame = calls.collect("polars").to_native()
    return frame
