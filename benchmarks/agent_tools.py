"""`tallystick agents` beside ccusage on the same made-up sessions: time, and whose bill is right.

    python benchmarks/agent_tools.py --ccusage node_modules/.bin/ccusage [--sessions N]

The sessions' bill is known (`agent_sessions`). Runs are in turns, each in a process of its own; the
first of ours has an empty ledger. Processor time includes that of child processes. ccusage 20.0.24
is the version that the differences in docs/agents.md are of.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.agent_sessions import Billed, write_sessions

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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ccusage", help="the command to compare with")
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
        later = []
        for _ in range(TURNS):
            later.append(run(own, home))
            print(f"tallystick, later   {later[-1][0]:6.2f} s  {later[-1][1]:6.2f} s")
            if options.ccusage:
                other = run([options.ccusage, "daily", "--offline", "--json"], home)
                print(f"ccusage             {other[0]:6.2f} s  {other[1]:6.2f} s")
                found["ccusage"] = theirs(other[2])
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
