"""Writes `examples/sample-usage.jsonl`: two weeks of a gateway's log, counts only.

A small company calls models of two providers through a gateway that logs in OpenAI style. Most of
its routes are fine; each of the others has one kind of waste, so that every detector finds
something. The output is the same on every machine: it only uses `random()`, whose sequence Python
keeps stable.

    python examples/generate_sample_log.py [FILE]
"""

import hashlib
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SAMPLE = Path(__file__).with_name("sample-usage.jsonl")
MONDAY = int(datetime(2026, 10, 5, tzinfo=UTC).timestamp())
DAYS = 14
HOUR, DAY = 3_600, 86_400


def _hours(weights: str) -> tuple[int, ...]:
    return tuple(int(weight) for weight in weights.split())


# The traffic of each hour, UTC: working hours in Europe, then in America.
OFFICE = _hours("1 1 1 1 1 2 6 14 22 26 26 22 20 25 28 26 22 18 14 10 7 4 3 2")
ROUND_THE_CLOCK = _hours("8 7 6 6 6 7 9 11 13 14 14 13 13 14 14 14 13 12 11 11 10 10 9 9")
WEEKEND = 0.25  # of a weekday's calls, on routes that people use

Call = dict[str, Any]


class Dice:
    """A random generator that uses `random()` only."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def share(self) -> float:
        return self._random.random()

    def whole(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return low + int(self.share() * (high - low + 1))

    def near(self, usual: int, spread: float) -> int:
        """Return a number around `usual`, within `spread` of it."""
        return int(usual * (1 + spread * (self.share() + self.share() - 1)))

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.share() * len(choices))]

    def moment(self, hours: Sequence[int], weekend: float) -> int:
        """Return a second of the two weeks, more often in busy hours and on weekdays."""
        while True:
            second = self.whole(0, DAYS * DAY - 1)
            weight = hours[second % DAY // HOUR] / max(hours)
            if second // DAY % 7 >= 5:
                weight *= weekend
            if self.share() < weight:
                return MONDAY + second


@dataclass(frozen=True)
class Route:
    """A use of a model, with the labels of its calls."""

    tag: str
    provider: str
    model: str
    cap: int | None = None

    def call(self, created: int, prompt: int, completion: int, **more: Any) -> Call:
        return {
            "created": created,
            "tag": self.tag,
            "provider": self.provider,
            "model": self.model,
            "prompt": prompt,
            "completion": completion,
            "cap": self.cap,
            **more,
        }


def prefix_hash(name: str) -> str:
    """Return a value like the hash of a prompt's first 4,096 characters."""
    return hashlib.sha256(name.encode()).hexdigest()


# Routes without waste


def chat_assistant(dice: Dice) -> Iterator[Call]:
    """Long system prompts that are almost always read from the cache."""
    route = Route("chat-assistant", "anthropic", "claude-sonnet-5-5", 2_048)
    for _ in range(620):
        prompt = dice.near(9_000, 0.5)
        part = {"written": 3_800} if dice.share() < 0.04 else {"cached": 3_800}
        created = dice.moment(OFFICE, WEEKEND)
        yield route.call(created, prompt, dice.near(620, 0.7), **part)


def deep_research(dice: Dice) -> Iterator[Call]:
    """Expensive calls without waste: long reports from many sources."""
    route = Route("deep-research", "openai", "gpt-5.5-pro", 32_000)
    for _ in range(400):
        created = dice.moment(OFFICE, WEEKEND)
        yield route.call(created, dice.near(104_000, 0.5), dice.near(12_000, 0.3))


def code_review(dice: Dice) -> Iterator[Call]:
    route = Route("code-review", "openai", "gpt-5.4", 4_096)
    for _ in range(420):
        prompt = dice.near(24_000, 0.6)
        created = dice.moment(OFFICE, WEEKEND)
        yield route.call(created, prompt, dice.near(1_500, 0.6), cached=prompt // 256 * 128)


def knowledge_index(dice: Dice) -> Iterator[Call]:
    route = Route("knowledge-index", "openai", "text-embedding-3-large")
    for _ in range(180):
        yield route.call(dice.moment(ROUND_THE_CLOCK, 1), dice.near(6_000, 0.5), 0)


def house_model(dice: Dice) -> Iterator[Call]:
    """Add calls of their own model, which has no list price."""
    route = Route("search-rewrite", "inhouse", "atlas-rewriter-v2")
    for _ in range(45):
        yield route.call(dice.moment(OFFICE, WEEKEND), dice.near(700, 0.4), dice.near(180, 0.4))


# Routes with one kind of waste each


def invoice_extraction(dice: Dice) -> Iterator[Call]:
    """Short, uniform answers from the most expensive model."""
    route = Route("invoice-extraction", "openai", "gpt-5.5-pro", 512)
    for _ in range(310):
        yield route.call(dice.moment(OFFICE, WEEKEND), dice.near(46_000, 0.6), dice.near(95, 0.3))


def support_triage(dice: Dice) -> Iterator[Call]:
    """Labels of a few words with a limit of 4,096 tokens."""
    route = Route("support-triage", "openai", "gpt-5.4-nano", 4_096)
    for _ in range(440):
        yield route.call(
            dice.moment(ROUND_THE_CLOCK, 0.6), dice.near(1_900, 0.6), dice.whole(6, 40)
        )


def help_center_answers(dice: Dice) -> Iterator[Call]:
    """Add prompts with the same instructions at the start, paid in full each time."""
    route = Route("help-center-answers", "anthropic", "claude-fable-5-2", 1_024)
    same = prefix_hash(route.tag)
    for _ in range(62):  # visits: a few questions in a row
        created = dice.moment(ROUND_THE_CLOCK, 0.6)
        for _ in range(dice.whole(4, 8)):
            yield route.call(created, dice.near(5_200, 0.4), dice.near(430, 0.6), hash=same)
            created += dice.whole(20, 140)


def contract_review(dice: Dice) -> Iterator[Call]:
    """Many clauses checked against one contract, which is sent again each time."""
    route = Route("contract-review", "anthropic", "claude-opus-4-1", 4_096)
    for _ in range(34):
        created = dice.moment(OFFICE, 0)
        contract = dice.near(92_000, 0.25)
        for _ in range(dice.whole(7, 14)):
            yield route.call(created, contract + dice.whole(200, 900), dice.near(900, 0.5))
            created += dice.whole(35, 150)


def hourly_digest(dice: Dice) -> Iterator[Call]:
    """Cache writes that expire before the next call, an hour later."""
    route = Route("hourly-digest", "anthropic", "claude-opus-4-1", 2_048)
    for hour in range(DAYS * 24):
        created = MONDAY + hour * HOUR + dice.whole(0, 40)
        yield route.call(created, dice.near(27_000, 0.2), dice.near(1_200, 0.3), written=22_000)


def meeting_notes(dice: Dice) -> Iterator[Call]:
    """Whole archives in the prompt where other routes send one transcript."""
    heavy = Route("meeting-notes", "openai", "gpt-5.5", 4_096)
    for _ in range(150):
        yield heavy.call(dice.moment(OFFICE, 0), dice.near(118_000, 0.3), dice.whole(2_300, 3_900))
    for tag, model in (("call-notes", "gpt-5-mini"), ("release-notes", "gpt-5.4-mini")):
        usual = Route(tag, "openai", model, 4_096)
        for _ in range(110):
            created = dice.moment(OFFICE, 0)
            yield usual.call(created, dice.near(9_000, 0.3), dice.whole(2_300, 3_900))


def order_webhook(dice: Dice) -> Iterator[Call]:
    """Add a client that repeats the same short prompt."""
    route = Route("order-webhook", "openai", "gpt-5.5", 300)
    for storm in range(9):
        created = dice.moment(ROUND_THE_CLOCK, 1)
        same = prefix_hash(f"{route.tag} {storm}")
        prompt, completion = dice.whole(420, 760), dice.whole(160, 240)
        for _ in range(dice.whole(9, 22)):
            yield route.call(created, prompt, completion, hash=same)
            created += dice.whole(1, 6)


def agent_planner(dice: Dice) -> Iterator[Call]:
    """Steps of an agent, of which some time out and are repeated."""
    route = Route("agent-planner", "openai", "gpt-5.5-pro", 8_192)
    for _ in range(95):
        created = dice.moment(OFFICE, 0)
        yield route.call(created, dice.near(71_000, 0.5), dice.near(1_700, 0.5))
    for _ in range(11):
        created = dice.moment(OFFICE, 0)
        prompt, completion = dice.near(88_000, 0.3), dice.near(1_600, 0.2)
        for _ in range(dice.whole(3, 6)):
            yield route.call(created, prompt, completion)
            created += dice.whole(9, 24)


def product_copy(dice: Dice) -> Iterator[Call]:
    """Add calls with a limit that cuts off one answer in seven."""
    route = Route("product-copy", "anthropic", "claude-opus-5-5", 700)
    for _ in range(230):
        completion = 700 if dice.share() < 0.14 else dice.whole(420, 690)
        yield route.call(dice.moment(OFFICE, 0), dice.near(3_400, 0.5), completion)


def catalog_tagging(dice: Dice) -> Iterator[Call]:
    """Nightly jobs with one product per call; one of them hashes its prompts."""
    tagging = Route("catalog-tagging", "openai", "gpt-5.5", 64)
    same = prefix_hash(tagging.tag)
    checking = Route("price-check", "openai", "gpt-5.4-mini", 64)
    for night in range(DAYS):
        created = MONDAY + night * DAY + 2 * HOUR + dice.whole(0, 600)
        for _ in range(dice.whole(28, 44)):
            yield tagging.call(created, dice.near(6_400, 0.2), dice.whole(8, 30), hash=same)
            created += dice.whole(3, 9)
    for week in range(2):
        created = MONDAY + (7 * week + 1) * DAY + 4 * HOUR
        for _ in range(45):
            yield checking.call(created, dice.near(2_600, 0.2), dice.whole(8, 30))
            created += dice.whole(2, 7)


ROUTES = (
    chat_assistant,
    deep_research,
    code_review,
    knowledge_index,
    house_model,
    invoice_extraction,
    support_triage,
    help_center_answers,
    contract_review,
    hourly_digest,
    meeting_notes,
    order_webhook,
    agent_planner,
    product_copy,
    catalog_tagging,
)
LOGGED_TWICE = 12  # lines that the gateway repeated after a restart


def lines() -> list[str]:
    """Return the lines of the log in time order."""
    calls = [call for route in ROUTES for call in route(Dice(route.__name__))]
    calls.sort(key=lambda call: call["created"])
    dice = Dice("gateway")
    written = [_line(number, call, dice) for number, call in enumerate(calls)]
    return written + written[-LOGGED_TWICE:]


def _line(number: int, call: Call, dice: Dice) -> str:
    prompt, completion = call["prompt"], call["completion"]
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    details = {"cached_tokens": call.get("cached"), "cache_write_tokens": call.get("written")}
    if any(details.values()):
        usage["prompt_tokens_details"] = _present(details)
    document = {
        "id": f"chatcmpl-{hashlib.sha256(str(number).encode()).hexdigest()[:16]}",
        "object": "chat.completion" if completion else "list",
        "created": call["created"],
        "model": call["model"],
        "usage": usage,
        "provider": call["provider"] if call["provider"] != "openai" else None,
        "tag": call["tag"],
        "latency_ms": 240 + dice.whole(0, 300) + completion * 14,
        "declared_max_tokens": call["cap"],
        "prefix_hash": call.get("hash"),
    }
    return json.dumps(_present(document), separators=(",", ":"))


def _present(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value is not None}


def main(arguments: Sequence[str]) -> None:
    file = Path(arguments[0]) if arguments else SAMPLE
    written = lines()
    file.write_text("\n".join(written) + "\n", encoding="utf-8", newline="\n")
    print(f"{file}: {len(written):,} lines, {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
