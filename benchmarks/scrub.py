"""The scrub benchmark: 1 GB of raw logs with text, OpenAI and Anthropic mixed, in one process.

    python benchmarks/scrub.py [--megabytes N]

The raw log and the counts-only log of the same calls are generated in the system's temporary folder
and removed afterwards. Scrubbing runs in a separate process. Its time is wall time, including the
start of Python. Its peak memory is also measured for a quarter of the log, because it must not
grow. Then both logs are audited: the findings and the spend must be equal.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.running import BYTES_PER_MB, print_machine
from detectors.contract import LEVEL_DIGITS, LEVELS

MIN_MB_PER_SECOND, MAX_MB = 100.0, 300.0
START: Final = 1_790_000_000
ROUTES: Final = 40
DUPLICATE_EVERY: Final = 97
OPENAI_MODELS: Final = ("gpt-5.4", "gpt-5.4-mini", "gpt-5-nano")
ANTHROPIC_MODELS: Final = ("claude-opus-4-8", "claude-haiku-4-5")


@dataclass(frozen=True)
class Pair:
    """A call as in the raw log and as in the counts-only log."""

    raw: dict[str, Any]
    counts: dict[str, Any]


class Prose:
    """Return text from a fixed choice of words."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        letters = "etaoinshrdlucmfw"
        self._words = [
            "".join(self.draw.choices(letters, k=self.draw.randint(2, 10))) for _ in range(3_000)
        ]
        self.systems = [self.text(180) for _ in range(ROUTES)]
        self.questions = [self.text(60) for _ in range(4_000)]
        self.answers = [self.text(150) for _ in range(4_000)]

    def text(self, words: int) -> str:
        return " ".join(self.draw.choices(self._words, k=words)) + ".\n"


def pairs(seed: int = 7) -> Iterator[Pair]:
    """Yield endless calls of both providers, some repeated within seconds."""
    prose = Prose(seed)
    question = ""
    for row in range(sys.maxsize):
        route = row // 5 % ROUTES
        if row % 20 not in (1, 2, 3, 4) or not question:
            question = prose.draw.choice(prose.questions)
        asked = (prose.systems[route], question)
        make = _anthropic if route % 3 == 0 else _openai
        yield make(row, route, asked, prose)


def _openai(row: int, route: int, asked: tuple[str, str], prose: Prose) -> Pair:
    prompt, completion = 300 + row % 4_000, 20 + row % 90
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": prompt // 2 if row % 5 == 0 else 0},
    }
    model, cap = OPENAI_MODELS[route % len(OPENAI_MODELS)], 256 << row % 5
    system, question = asked
    request = {
        "model": model,
        "max_completion_tokens": cap,
        "messages": [
            {"role": "system", "content": system},
            {"role": "user", "content": [{"type": "text", "text": question}]},
        ],
    }
    answer = {"role": "assistant", "content": prose.draw.choice(prose.answers), "refusal": None}
    response = {
        "id": f"chatcmpl-{row:09d}",
        "object": "chat.completion",
        "created": START + row // 4,
        "model": model,
        "choices": [{"index": 0, "message": answer, "finish_reason": "stop"}],
        "usage": usage,
    }
    counts = {name: response[name] for name in ("id", "created", "model", "usage")}
    return _pair({"request": request, "response": response}, counts, route, cap, asked)


def _anthropic(row: int, route: int, asked: tuple[str, str], prose: Prose) -> Pair:
    read, fresh, completion = 1_200 * (row % 2), 400 + row % 3_000, 30 + row % 300
    model, cap = ANTHROPIC_MODELS[route % len(ANTHROPIC_MODELS)], 1_024
    system, question = asked
    request = {
        "model": model,
        "max_tokens": cap,
        "system": [{"type": "text", "text": system}],
        "messages": [{"role": "user", "content": question}],
    }
    response = {
        "id": f"msg_{row:09d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": prose.draw.choice(prose.answers)}],
        "usage": {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": 0,
            "output_tokens": completion,
        },
    }
    counts = {
        "id": response["id"],
        "model": model,
        "provider": "anthropic",
        "usage": {
            "prompt_tokens": fresh + read,
            "completion_tokens": completion,
            "prompt_tokens_details": {"cached_tokens": read},
        },
    }
    labels = {"ts": START + row // 4}
    return _pair(
        {"request": request, "response": response} | labels, counts | labels, route, cap, asked
    )


def _pair(
    raw: dict[str, Any], counts: dict[str, Any], route: int, cap: int, asked: tuple[str, str]
) -> Pair:
    tag = {"tag": f"route-{route:02d}"}
    text = "\n".join(asked)
    levels = [
        sha256(text[:size].encode()).hexdigest()
        for size in LEVELS
        if size == LEVELS[0] or size <= len(text)
    ]
    derived = {
        "declared_max_tokens": cap,
        "prefix_hash": levels[0],
        "prefix_hashes": [each[:LEVEL_DIGITS] for each in levels],
    }
    return Pair(raw | tag, counts | tag | derived)


def write_logs(raw: Path, counts: Path, size: int) -> int:
    """Write both logs until the raw log has this size; some calls are logged twice."""
    written = calls = 0
    with raw.open("wb") as raw_file, counts.open("wb") as counts_file:
        for row, pair in enumerate(pairs()):
            line = json.dumps(pair.raw).encode() + b"\n"
            times = 2 if row % DUPLICATE_EVERY == 0 else 1
            raw_file.write(line * times)
            counts_file.write((json.dumps(pair.counts).encode() + b"\n") * times)
            written += len(line) * times
            calls += 1
            if written >= size:
                return calls
    return calls


@dataclass(frozen=True)
class Scrubbed:
    seconds: float
    peak_mb: float


def scrub(raw: Path, out: Path) -> Scrubbed:
    """Scrub in a separate process; return its time and the kernel's figure for its peak memory."""
    program = (
        "import resource, runpy, sys\n"
        "sys.argv = ['detectors', 'scrub', sys.argv[1], '--out', sys.argv[2]]\n"
        "try:\n"
        "    runpy.run_module('detectors', run_name='__main__')\n"
        "finally:\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, raw, out], stdout=subprocess.PIPE, check=True
    )
    seconds = time.perf_counter() - began
    return Scrubbed(seconds, int(done.stdout.split()[-1]) * 1_024 / BYTES_PER_MB)


def bill_of(log: Path) -> tuple[Any, ...]:
    """Audit the log; return its findings and its spend."""
    report = log.with_suffix(".report.json")
    command = [sys.executable, "-m", "detectors", "audit", str(log), "--json", str(report)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    document = json.loads(report.read_bytes())
    return tuple(document[name] for name in ("findings", "spend_by_model", "spend_by_route"))


def measure(folder: Path, megabytes: int) -> list[tuple[str, str, str, bool | None]]:
    raw, counts, out = folder / "raw.jsonl", folder / "counts.jsonl", folder / "usage.jsonl"
    write_logs(raw, counts, megabytes * BYTES_PER_MB // 4)
    quarter = scrub(raw, out)
    calls = write_logs(raw, counts, megabytes * BYTES_PER_MB)
    size = raw.stat().st_size / BYTES_PER_MB
    whole = scrub(raw, out)
    speed = size / whole.seconds
    text = out.read_bytes()
    is_same = bill_of(out) == bill_of(counts)
    peaks = f"{quarter.peak_mb:.0f} and {whole.peak_mb:.0f} MB"
    return [
        (f"{size:,.0f} MB of raw logs, {calls:,} calls", f"{whole.seconds:.1f} s", "", None),
        ("megabytes a second", f"{speed:.0f}", ">= 100", speed >= MIN_MB_PER_SECOND),
        ("peak for a quarter and for all", peaks, "<= 300 MB", whole.peak_mb <= MAX_MB),
        ("counts written", f"{len(text) / BYTES_PER_MB:.0f} MB", "", None),
        ("calls logged twice, dropped", str(text.count(b"\n") == calls), "True",
         text.count(b"\n") == calls),
        ("findings as of the counts-only log", "equal" if is_same else "not equal", "equal",
         is_same),
    ]  # fmt: skip


def print_table(results: list[tuple[str, str, str, bool | None]]) -> None:
    print_machine()
    table = Table(title="Scrubbing raw logs")
    for heading in ("what", "measured", "bar", "met"):
        table.add_column(heading)
    for what, value, bar, is_met in results:
        table.add_row(what, value, bar, "" if is_met is None else "yes" if is_met else "no")
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=int, default=1_000, help="size of the raw log")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tallystick-scrub-"))
    try:
        print_table(measure(folder, arguments.megabytes))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
