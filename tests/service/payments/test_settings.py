"""A payment provider is configured completely or not at all, and never with an empty secret."""

import pytest

from service.config import Config
from service.errors import ConfigError
from tests.cases import each_case

REQUIRED = {
    "SECRET_KEY": "s" * 32,
    "DATABASE_URL": "postgresql://user@host/db",
    "REDIS_URL": "redis://host/0",
    "STORAGE_URL": "file:///var/blobs",
}


@each_case("provider", ["STRIPE", "PADDLE"])
@each_case("secret", ["", " ", "\t\n"])
def test_an_empty_secret_stops_the_start(provider: str, secret: str) -> None:
    name = f"{provider}_WEBHOOK_SECRET"
    with pytest.raises(ConfigError, match=name):
        Config.from_environment({**REQUIRED, name: secret})
    with pytest.raises(ConfigError, match=name):
        Config.from_environment({**REQUIRED, name: secret, f"{provider}_CREDIT_PRICE": "x"})


@each_case("provider", ["STRIPE", "PADDLE"])
@each_case(("name", "value"), [("CREDIT_PRICE", "x"), ("TEAM_LINK", "https://pay.example/x")])
def test_a_provider_without_its_secret_stops_the_start(
    provider: str, name: str, value: str
) -> None:
    settings = {**REQUIRED, f"{provider}_{name}": value}
    with pytest.raises(ConfigError, match=f"{provider}_WEBHOOK_SECRET"):
        Config.from_environment(settings)
    Config.from_environment({**settings, f"{provider}_WEBHOOK_SECRET": "secret"})


def test_a_settings_value_made_of_spaces_is_no_secret_either() -> None:
    required = {name.lower(): value for name, value in REQUIRED.items()}
    with pytest.raises(ConfigError, match="STRIPE_WEBHOOK_SECRET"):
        Config(**required, stripe_webhook_secret="  ")  # type: ignore[arg-type]


@each_case("link", ["http://pay.example/x", "javascript:alert(1)", "pay.example"])
def test_a_link_to_pay_at_is_encrypted(link: str) -> None:
    settings = {"PADDLE_WEBHOOK_SECRET": "secret", "PADDLE_PRO_LINK": link}
    with pytest.raises(ConfigError, match="PADDLE_PRO_LINK"):
        Config.from_environment({**REQUIRED, **settings})


def test_a_secret_does_not_show_in_the_settings() -> None:
    config = Config.from_environment({**REQUIRED, "STRIPE_WEBHOOK_SECRET": "whsec_hidden"})
    assert "whsec_hidden" not in repr(config)
