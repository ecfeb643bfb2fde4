"""A call is priced as the model it is, under every name that hosts and gateways write."""

import pytest

import detectors
from detectors import PriceBook
from detectors.errors import PriceTermsError
from tests.cases import data_of, each_case

BILLED, EQUIVALENT = False, True
PROFILE = "arn:aws:bedrock:us-east-1:123456789012:inference-profile"


@pytest.fixture(scope="module")
def book() -> PriceBook:
    return PriceBook()


@each_case(("label", "model", "provider", "listed"), data_of(__file__)["names"])
def test_a_name_means_its_model_at_its_host_and_is_billed_there(
    book: PriceBook, label: str, model: str, provider: str, listed: str
) -> None:
    listing = book.find_listing(label, model)
    assert listing is not None
    assert (listing.provider, listing.info.id) == (provider, listed)
    assert listing.is_equivalent is BILLED


@pytest.mark.parametrize(
    ("label", "model", "provider"),
    [
        ("my-gateway", "azure/gpt-4o", "azure"),
        ("my-gateway", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws"),
        ("portkey", "@prod-openai/gpt-4o", "openai"),
        ("litellm", "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "aws"),
        ("groq", "azure/gpt-4o", "azure"),
        ("claude-code", "claude-opus-4-5[1m]", "anthropic"),
    ],
)
def test_where_another_bills_the_dollars_are_a_list_price_cost(
    book: PriceBook, label: str, model: str, provider: str
) -> None:
    listing = book.find_listing(label, model)
    assert listing is not None
    assert (listing.provider, listing.is_equivalent) == (provider, EQUIVALENT)


@pytest.mark.parametrize(
    ("label", "model"),
    [
        ("azure", "prod-chat"),
        ("bedrock", f"{PROFILE.replace('inference', 'application-inference')}/a1b2c3"),
        ("openai", "ft:gpt-4.1-2025-04-14:acme::abc"),  # the book has no rates for its fine-tunes
        ("openai", "gpt-5.4x"),
        ("my-gateway", "/".join("a" * 100)),
        ("openai", "/"),
    ],
)
def test_a_name_is_never_completed(book: PriceBook, label: str, model: str) -> None:
    assert book.find_listing(label, model) is None


def test_a_name_that_several_hosts_sell_is_nobodys(book: PriceBook) -> None:
    assert book.find_listing("groq", "openai/gpt-oss-120b") is not None
    assert book.find_listing("my-gateway", "gpt-oss-9b") is None


@each_case(
    ("label", "model", "nearest"),
    [
        ("azure", "gpt4o", ("azure", "gpt-4o")),
        ("anthropic", "claude-sonet-4-5", ("anthropic", "claude-sonnet-4-5")),
        ("my-gateway", "claude-sonet-4-5", ("anthropic", "claude-sonnet-4-5")),
        ("openai", "ft:gpt-4.1-2025-04-14:acme::abc", ("openai", "gpt-4.1")),
    ],
)
def test_an_unknown_name_has_suggestions(
    book: PriceBook, label: str, model: str, nearest: tuple[str, str]
) -> None:
    suggested = book.suggest(label, model)
    assert suggested[0] == nearest
    assert all(book.find_listing(*each) is not None for each in suggested)


def test_a_name_like_no_other_has_no_suggestion(book: PriceBook) -> None:
    assert book.suggest("azure", "prod-chat-eu-west-7") == []


def test_an_alias_is_priced_as_its_model_wildcards_last() -> None:
    book = PriceBook(
        aliases={
            ("azure", "prod-*"): ("azure", "gpt-5.4"),
            ("Azure", "Prod-Mini"): {"provider": "azure", "model": "gpt-5.4-mini"},
            ("*", "house-model"): ("anthropic", "claude-haiku-4-5"),
        }
    )
    names = [("azure", "PROD-chat"), ("azure", "prod-mini"), ("gateway", "house-model")]
    found = [book.find_listing(*name) for name in names]
    ids = [listing and (listing.info.id, listing.is_equivalent) for listing in found]
    assert ids == [("gpt-5.4", False), ("gpt-5.4-mini", False), ("claude-haiku-4-5", False)]
    assert book.find_listing("azure", "test-chat") is None
    assert book.aliases[0] == "azure prod-mini priced as azure gpt-5.4-mini"


def test_an_alias_has_the_negotiated_rates_of_its_model() -> None:
    book = PriceBook(
        discounts={"azure": 0.5},
        overrides={("acme", "house"): {"input_mtok": 1, "output_mtok": 2}},
        aliases={("azure", "prod"): ("azure", "gpt-5.4"), ("azure", "own"): ("acme", "house")},
    )
    assert [
        listing.terms.discounts[0].share if listing and listing.terms.discounts else None
        for listing in (book.find_listing("azure", "prod"), book.find_listing("azure", "own"))
    ] == [book.terms.discounts[0].share, None]
    assert book.find_listing("azure", "own") is not None


@each_case(
    "aliases",
    [
        {("azure", "prod"): ("azure", "no-such-model")},
        {("azure", "prod"): "gpt-5.4"},
        {("azure", "prod"): {"model": "gpt-5.4"}},
        {"prod": ("azure", "gpt-5.4")},
        {("azure", ""): ("azure", "gpt-5.4")},
        {("azure", "prod"): ("azure", 5)},
    ],
)
def test_an_alias_that_means_nothing_is_an_error(aliases: dict[object, object]) -> None:
    with pytest.raises(PriceTermsError):
        PriceBook(aliases=aliases)  # type: ignore[arg-type]


def test_a_report_lists_the_tokens_and_closest_names_of_what_it_cannot_price() -> None:
    call = {"ts": "2026-11-02T10:00:00Z", "provider": "anthropic", "model": "claude-sonet-4-5"}
    counts = {"prompt_tokens": 1_000, "completion_tokens": 30}
    report = detectors.audit([call | counts, call | counts, call | counts | {"model": "zzz"}])
    first, second = report.unpriced
    assert (first.model, first.calls, first.tokens) == ("claude-sonet-4-5", 2, 2_060)
    assert first.closest_names.startswith("claude-sonnet-4-5, ")
    assert (second.tokens, second.suggestions) == (1_030, ())


def test_a_report_lists_its_aliases() -> None:
    call = {"ts": "2026-11-02T10:00:00Z", "provider": "azure", "model": "prod"}
    book = PriceBook(aliases={("azure", "prod"): ("azure", "gpt-5.4")})
    report = detectors.audit([call | {"prompt_tokens": 1, "completion_tokens": 1}], prices=book)
    assert report.prices.aliases == ("azure prod priced as azure gpt-5.4",)
    assert report.unpriced == ()
