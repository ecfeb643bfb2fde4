"""Public traces of real traffic as calls of one model, and what a cache could have served of them.

Azure: github.com/Azure/AzurePublicDataset (CC-BY 4.0), two services of November 2023, times and
counts. Mooncake: github.com/kvcache-ai/Mooncake (Apache-2.0), an hour of a chat service with an id
for every block of 512 prompt tokens; equal ids mean equal text up to there.
"""

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from detectors.contract import LEVEL_DIGITS, LEVELS

START = datetime(2026, 10, 6, 9, 0, tzinfo=UTC)
AZURE = ("azure-2023-code", "azure-2023-conversation")
MOONCAKE = "mooncake-conversation"
BLOCK_TOKENS = 512
CACHE_SECONDS = 300
SHORTEST_PREFIX = 1_024
# A hash of the first 4,096, 16,384 and 65,536 characters, in blocks at four characters a token.
BLOCKS_BY_HASH = {"prefix_hash": 2, "prefix_hash_16k": 8, "prefix_hash_64k": 32}


@dataclass(frozen=True, slots=True)
class Model:
    provider: str
    name: str


def read_azure(folder: Path, name: str, model: Model) -> pl.DataFrame:
    """Return the calls of one service, tagged with the file's name."""
    rows = pl.read_csv(folder / f"{name}.csv", try_parse_dates=True)
    return rows.select(
        ts=pl.col("TIMESTAMP").dt.replace_time_zone("UTC").dt.cast_time_unit("us"),
        provider=pl.lit(model.provider),
        model=pl.lit(model.name),
        tag=pl.lit(name),
        prompt_tokens=pl.col("ContextTokens"),
        completion_tokens=pl.col("GeneratedTokens"),
    )


def read_mooncake(folder: Path, model: Model, hashes: tuple[str, ...] = ()) -> pl.DataFrame:
    """Return the calls of the chat service with these prefix hashes."""
    rows = []
    for turn in turns(folder):
        row: dict[str, Any] = {
            "ts": START + timedelta(milliseconds=turn["timestamp"]),
            "provider": model.provider,
            "model": model.name,
            "tag": MOONCAKE,
            "prompt_tokens": turn["input_length"],
            "completion_tokens": turn["output_length"],
        }
        rows.append(row | {name: _hash(turn, name) for name in hashes})
    return pl.DataFrame(rows, infer_schema_length=None)


def turns(folder: Path) -> list[dict[str, Any]]:
    with (folder / f"{MOONCAKE}.jsonl").open() as lines:
        return [json.loads(line) for line in lines]


def read_ladder(folder: Path, model: Model) -> pl.DataFrame:
    """Return the calls of the chat service with hashes of every level, at four characters a token.

    A block that a level ends in counts as a whole: nothing is known of its parts.
    """
    levels = []
    for turn in turns(folder):
        ids, length = turn["hash_ids"], 4 * turn["input_length"]
        ends = [min(-(-size // (4 * BLOCK_TOKENS)), len(ids)) for size in LEVELS if size <= length]
        levels.append([_digest(ids[end - 1])[:LEVEL_DIGITS] for end in ends or [len(ids)]])
    plain = read_mooncake(folder, model)
    return plain.with_columns(pl.Series("prefix_hashes", levels, pl.List(pl.String)))


def _digest(block: int) -> str:
    return hashlib.sha256(str(block).encode()).hexdigest()


def _hash(turn: dict[str, Any], name: str) -> str | None:
    """Return the hash of a prefix; only the shortest hash exists for prompts shorter than it."""
    ids, blocks = turn["hash_ids"], BLOCKS_BY_HASH[name]
    if name != "prefix_hash" and turn["input_length"] < blocks * BLOCK_TOKENS:
        return None
    return _digest(ids[min(blocks, len(ids)) - 1])


@dataclass(frozen=True, slots=True)
class Served:
    """What a cache that keeps each block for 300 s after its last use serves."""

    tokens: int
    written_tokens: int  # with foresight: only what is read later


def serve(folder: Path) -> Served:
    """Replay the chat service's blocks; calls of one second cannot read what they write."""
    used: dict[int, int] = {}
    unread: dict[int, int] = {}  # tokens of blocks in the cache that nothing has read yet
    tokens = written = 0
    second, fresh = -1, dict[int, int]()
    for turn in turns(folder):
        now = turn["timestamp"] // 1_000
        if now != second:
            used |= dict.fromkeys(fresh, second)
            unread |= {block: size for block, size in fresh.items() if block not in unread}
            second, fresh = now, {}
        sizes = _sizes(turn)
        hit = _prefix_length(turn["hash_ids"], used, now)
        read = sum(sizes[:hit])
        if read >= SHORTEST_PREFIX:
            tokens += read
            written += sum(unread.pop(block, 0) for block in turn["hash_ids"][:hit])
        for number, (block, size) in enumerate(zip(turn["hash_ids"], sizes, strict=True)):
            if number >= hit:
                unread.pop(block, None)
                fresh[block] = size
            else:
                fresh[block] = fresh.get(block, 0)
    return Served(tokens, written)


def _sizes(turn: dict[str, Any]) -> list[int]:
    """Return the tokens in each block of a prompt; the last block may be shorter."""
    whole, rest = divmod(turn["input_length"], BLOCK_TOKENS)
    sizes = [BLOCK_TOKENS] * whole + [rest] * (rest > 0)
    return sizes[: len(turn["hash_ids"])] + [0] * (len(turn["hash_ids"]) - len(sizes))


def _prefix_length(blocks: list[int], used: dict[int, int], now: int) -> int:
    for number, block in enumerate(blocks):
        if now - used.get(block, now - CACHE_SECONDS - 1) > CACHE_SECONDS:
            return number
    return len(blocks)
