"""The logs of the audit benchmark: the same traffic as JSON Lines and as Parquet.

Calls of 40 routes in time order; each route has its own model and pattern. Files are generated once
and kept in the system's temporary folder.
"""

import hashlib
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl

ROUTES = 40
MODELS = (
    "gpt-5.4-mini",
    "gpt-5.4",
    "gpt-5-nano",
    "gpt-4.1",
    "gpt-4o-mini",
    "gpt-5.6-terra",
    "gpt-5-mini",
    "gpt-4.1-mini",
)
START = 1_790_000_000
SPAN_SECONDS = 14 * 86_400
FOLDER = Path(tempfile.gettempdir()) / "tallystick-benchmarks"
PART_ROWS = 1_000_000


def json_lines(rows: int) -> Path:
    """Return the log with this many lines, generating it if it does not exist."""
    file = FOLDER / f"usage-{_version()}-{rows}.jsonl"
    if not file.exists():
        FOLDER.mkdir(exist_ok=True)
        unfinished = file.with_suffix(".part")
        with unfinished.open("w") as out:
            out.writelines(lines(rows))
        unfinished.rename(file)
    return file


def _version() -> str:
    """Return a key that changes with this script, so that older files are not used."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


def lines(rows: int) -> Iterator[str]:
    rng = random.Random(rows)
    hashes = [hashlib.sha256(str(route).encode()).hexdigest() for route in range(ROUTES)]
    for row in range(rows):
        route = int(rng.random() ** 2 * ROUTES)
        prompt = int((400 + 150 * route) * (0.5 + rng.random()))
        completion = int((20 + 17 * (route % 23)) * (0.5 + rng.random()))
        cached = f"{prompt // 2}" if route % 3 == 0 else "0"
        cap = f',"declared_max_tokens":{256 << route % 5}' if route % 4 == 1 else ""
        prefix = f',"prefix_hash":"{hashes[route]}"' if route % 20 == 5 else ""
        yield (
            f'{{"id":"chatcmpl-{row:08}","created":{START + row * SPAN_SECONDS // rows},'
            f'"model":"{MODELS[route % len(MODELS)]}",'
            f'"usage":{{"prompt_tokens":{prompt},"completion_tokens":{completion},'
            f'"prompt_tokens_details":{{"cached_tokens":{cached}}}}},'
            f'"tag":"route-{route:02}"{cap}{prefix}}}\n'
        )


def parquet(rows: int) -> Path:
    """Return the pattern of files with this many calls, at most a million per file."""
    folder = FOLDER / f"usage-{_version()}-{rows}"
    if not folder.exists():
        unfinished = folder.with_suffix(".part")
        unfinished.mkdir(parents=True, exist_ok=True)
        for part, first in enumerate(range(0, rows, PART_ROWS)):
            _write_part(unfinished / f"{part:04}.parquet", first, rows)
        unfinished.rename(folder)
    return folder / "*.parquet"


def _write_part(file: Path, first: int, rows: int) -> None:
    row = pl.int_range(first, min(first + PART_ROWS, rows), dtype=pl.Int64)
    route, jitter = pl.col("route"), [0.5 + _chance(seed) for seed in (2, 3)]
    models = pl.Series(MODELS * 5)
    hashes = pl.Series([hashlib.sha256(str(each).encode()).hexdigest() for each in range(ROUTES)])
    cap = pl.lit(256, pl.Int64) * pl.lit(2, pl.Int64).pow(route % 5)
    (
        pl.select(row.alias("row"))
        .lazy()
        .with_columns(((_chance(1) ** 2) * ROUTES).cast(pl.Int64).alias("route"))
        .select(
            pl.from_epoch(START + pl.col("row") * SPAN_SECONDS // rows, "s").alias("ts"),
            pl.lit("openai").alias("provider"),
            pl.lit(models).gather(route).alias("model"),
            ((400 + 150 * route) * jitter[0]).cast(pl.Int64).alias("prompt_tokens"),
            ((20 + 17 * (route % 23)) * jitter[1]).cast(pl.Int64).alias("completion_tokens"),
            pl.format("chatcmpl-{}", pl.col("row")).alias("request_id"),
            pl.format("route-{}", route).alias("tag"),
            pl.when(route % 4 == 1).then(cap).alias("declared_max_tokens"),
            pl.when(route % 20 == 5).then(pl.lit(hashes).gather(route)).alias("prefix_hash"),
            route,
        )
        .with_columns(
            pl.when(route % 3 == 0).then(pl.col("prompt_tokens") // 2).alias("cached_tokens")
        )
        .drop("route")
        .sink_parquet(file)
    )


def _chance(seed: int) -> pl.Expr:
    """Return a pseudo-random number from 0 to 1 that depends on the row only."""
    return pl.col("row").hash(seed).cast(pl.Float64) / 2.0**64
