"""Routes of the sample log without waste."""

from collections.abc import Iterator

from examples.sample_log.traffic import OFFICE, ROUND_THE_CLOCK, WEEKEND, Call, Dice, Route


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


SOUND_ROUTES = (chat_assistant, deep_research, code_review, knowledge_index, house_model)
