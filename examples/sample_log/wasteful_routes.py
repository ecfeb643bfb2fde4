"""Routes of the sample log with one kind of waste each."""

from collections.abc import Iterator

from examples.sample_log.traffic import (
    DAY,
    DAYS,
    HOUR,
    MONDAY,
    OFFICE,
    ROUND_THE_CLOCK,
    WEEKEND,
    Call,
    Dice,
    Route,
    prefix_hash,
)


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


WASTEFUL_ROUTES = (
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
