"""`tallystick agents` beside other tools on the same made-up sessions: time, and who is right.

    python benchmarks/agent_tools.py --ccusage node_modules/.bin/ccusage --tokscale "bun tokscale"

The sessions' bill is known (`agent_sessions`). Runs are in turns, each in a process of its own; the
first of ours has an empty ledger. Processor time includes that of child processes. The differences
in docs/agents.md are of ccusage 20.0.24 and tokscale 1.4.3. tokscale looks for prices on the
network and stops without any, so it finds those of the price book in its cache.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.agent_sessions import Billed, write_sessions
from detectors.prices.book import PriceBook

TURNS: Final = 3
FIRST_SECONDS, LATER_SECONDS = 3.0, 0.4
_KINDS: Final = ("input", "cache read", "cache write", "output", "usd")


def run(command: list[str], home: Path) -> tuple[float, float, dict[str, Any]]:
    """Return the seconds and the processor time of a command, and the JSON that it prints."""
    env = {**os.environ, "HOME": str(home)}
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        env.pop(name, None)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=env, check=True, capture_output=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, processor, json.loads(done.stdout)


def billed(calls: list[Billed]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(_KINDS))
    for call in calls:
        counts = (call.prompt - call.cached - call.written, call.cached, call.written)
        for place, count in enumerate((*counts, call.completion)):
            found[call.model][place] += count
    return found


def ours(document: dict[str, Any]) -> dict[str, list[float]]:
    names = (
        "input_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "output_tokens",
        "value_usd",
    )
    models = document["total"]["models"].items()
    return {model: [sums[name] for name in names] for model, sums in models}


def theirs(document: dict[str, Any]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(_KINDS))
    names = ("inputTokens", "cacheReadTokens", "cacheCreationTokens", "outputTokens", "cost")
    for day in document["daily"]:
        for model in day["modelBreakdowns"]:
            for place, name in enumerate(names):
                found[model["modelName"]][place] += model[name]
    return found


def entries(document: dict[str, Any]) -> dict[str, list[float]]:
    """Return what tokscale counts by model."""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(_KINDS))
    for entry in document["entries"]:
        for place, name in enumerate(("input", "cacheRead", "cacheWrite", "output", "cost")):
            found[entry["model"]][place] += entry[name]
    return found


def write_prices(home: Path, models: dict[str, list[float]]) -> None:
    """Write tokscale's cache of prices, which holds for an hour."""
    book, now = PriceBook(), datetime.now(UTC)
    prices = {}
    for model in models:
        listing = book.find_listing("codex" if model.startswith("gpt") else "claude-code", model)
        rates = listing and listing.find_rates(now, 0)
        if rates:
            prices[model] = {
                "input_cost_per_token": rates.input_usd,
                "output_cost_per_token": rates.output_usd,
                "cache_read_input_token_cost": rates.cache_read_usd,
                "cache_creation_input_token_cost": rates.cache_write_usd,
            }
    cache = home / ".cache" / "tokscale"
    cache.mkdir(parents=True, exist_ok=True)
    for name, data in (("litellm", prices), ("openrouter", {})):
        content = {"timestamp": int(now.timestamp()), "data": data}
        (cache / f"pricing-{name}.json").write_text(json.dumps(content))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ccusage", help="the command to compare with")
    parser.add_argument("--tokscale", help="another one")
    parser.add_argument("--sessions", type=int, default=500)
    parser.add_argument("--megabytes", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        calls = write_sessions(home, options.sessions, int(options.megabytes * 1.4e6))
        size = sum(path.stat().st_size for path in home.rglob("*.jsonl")) / 1e6
        print(f"{len(calls):,} calls, {size:,.0f} MB")
        own = [sys.executable, "-m", "detectors", "agents", "daily", "--json"]
        first = run(own, home)
        print(f"tallystick, first   {first[0]:6.2f} s  {first[1]:6.2f} s of processor time")
        found = {"known": billed(calls), "tallystick": ours(first[2])}
        others = {}
        if options.ccusage:
            others["ccusage"] = ([options.ccusage, "daily", "--offline", "--json"], theirs)
        if options.tokscale:
            write_prices(home, found["known"])
            command = [*shlex.split(options.tokscale), "models", "--json", "--no-spinner"]
            others["tokscale"] = (command, entries)
        later = []
        for _ in range(TURNS):
            later.append(run(own, home))
            print(f"tallystick, later   {later[-1][0]:6.2f} s  {later[-1][1]:6.2f} s")
            for name, (command, read) in others.items():
                other = run(command, home)
                print(f"{name:<20}{other[0]:6.2f} s  {other[1]:6.2f} s")
                found[name] = read(other[2])
    for model in sorted(found["known"]):
        for tool, models in found.items():
            counts = [f"{count:>13,.0f}" for count in models.get(model, [0.0] * 5)[:4]]
            usd = models.get(model, [0.0] * 5)[4]
            print(f"{model:<26} {tool:<11}", *counts, "" if tool == "known" else f"${usd:,.2f}")
    is_right = all(
        found["tallystick"].get(model, [])[:4] == counts[:4]
        for model, counts in found["known"].items()
    )
    quickest = min(each[0] for each in later)
    print("counts are the known ones" if is_right else "counts differ from the known ones")
    print(f"bars: first {FIRST_SECONDS} s, later {LATER_SECONDS} s")
    return 0 if is_right and first[0] <= FIRST_SECONDS and quickest <= LATER_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
