"""Payment links carry the reference that assigns the payment."""

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask

from service.config import Config
from service.payments import payment_links
from service.payments.links import purchase_links
from service.web.http.current import current_config
from tests.service.payments.providers import SETTINGS

ACCOUNT = "0f" * 16


@pytest.fixture
def configured(share_app: Callable[..., Flask]) -> Callable[..., Config]:
    def make(**links: str) -> Config:
        with share_app(**SETTINGS, **links).app_context():
            return current_config()

    return make


def test_each_configured_provider_has_its_link_and_no_other(
    configured: Callable[..., Config],
) -> None:
    assert payment_links(configured(), ACCOUNT) == []
    config = configured(paddle_credit_link="https://pay.paddle.io/hsc_1")
    assert [link["provider"] for link in payment_links(config, ACCOUNT)] == ["paddle"]
    config = configured(
        stripe_credit_link="https://buy.stripe.com/1",
        paddle_credit_link="https://pay.paddle.io/hsc_1",
    )
    links = payment_links(config, ACCOUNT)
    assert [set(link) for link in links] == [{"provider", "url"}] * 2
    assert [link["provider"] for link in links] == ["stripe", "paddle"]


def test_without_a_link_of_a_provider_there_is_one_to_the_billing_page(
    configured: Callable[..., Config],
) -> None:
    config = configured(base_url="https://tallystick.example/")
    billing = {"provider": "billing", "url": "https://tallystick.example/billing"}
    assert purchase_links(config, ACCOUNT) == [billing]
    config = configured(stripe_credit_link="https://buy.stripe.com/1")
    assert purchase_links(config, ACCOUNT) == payment_links(config, ACCOUNT)


def test_a_link_carries_our_reference_and_keeps_what_it_had(
    configured: Callable[..., Config],
) -> None:
    config = configured(
        stripe_credit_link="https://buy.stripe.com/1?locale=de&client_reference_id=x",
        paddle_credit_link="https://pay.paddle.io/hsc_1?price_id=pri_1,pri_2",
    )
    queries = [parse_qs(urlsplit(link["url"]).query) for link in payment_links(config, ACCOUNT)]
    assert queries == [
        {"locale": ["de"], "client_reference_id": [ACCOUNT]},
        {"price_id": ["pri_1,pri_2"], "app_user_id": [ACCOUNT]},
    ]


def test_plans_have_links_of_their_own(configured: Callable[..., Config]) -> None:
    config = configured(stripe_pro_link="https://buy.stripe.com/pro")
    assert payment_links(config, ACCOUNT) == []
    (link,) = payment_links(config, ACCOUNT, product="pro")
    assert link["url"] == f"https://buy.stripe.com/pro?client_reference_id={ACCOUNT}"
