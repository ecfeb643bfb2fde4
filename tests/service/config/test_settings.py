"""Settings are read once, and missing or invalid settings are rejected."""

import os
from dataclasses import fields

import pytest

from service.config import Config
from service.errors import ConfigError
from tests.cases import data_of, each_case
from tests.warm import run_warm

REQUIRED = {
    "SECRET_KEY": "s" * 32,
    "DATABASE_URL": "postgresql+psycopg2://user:hidden-password@host/db",
    "REDIS_URL": "redis://:hidden-password@host/0",
    "STORAGE_URL": "file:///var/blobs",
}


def test_required_settings_suffice() -> None:
    config = Config.from_environment(REQUIRED)
    assert config.secret_key == "s" * 32
    assert config.ingest_key_limit_per_minute == 120
    assert config.ingest_ip_limit_per_minute == 600
    assert config.report_link_days == 30
    assert config.worker_processes == 2


def test_every_setting_is_read_from_its_own_variable() -> None:
    numbers = [one.name for one in fields(Config) if one.type in (int, float)]
    odd = {name: 0.7 if name.endswith("_share") else 700 for name in numbers}
    given = {name.upper(): str(number) for name, number in odd.items()}
    config = Config.from_environment({**REQUIRED, **given, "BASE_URL": "https://x.example"})
    assert {name: getattr(config, name) for name in odd} == odd
    assert config.base_url == "https://x.example"


@each_case("name", REQUIRED)
@each_case("value", [None, "", "  "])
def test_a_missing_secret_stops_the_start_and_is_named(name: str, value: str | None) -> None:
    environment = {**REQUIRED, name: value or ""}
    if value is None:
        del environment[name]
    with pytest.raises(ConfigError, match=f"{name} is not set"):
        Config.from_environment(environment)


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(ConfigError) as raised:
        Config.from_environment({"MAX_STARTS": "three", "SECRET_KEY": "short"})
    for name in ("DATABASE_URL", "REDIS_URL", "STORAGE_URL", "MAX_STARTS"):
        assert name in str(raised.value)


@each_case(
    ("name", "value"),
    data_of(__file__)["a_setting_that_makes_no_sense_is_rejected_by_name"],
)
def test_a_setting_that_makes_no_sense_is_rejected_by_name(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Config.from_environment({**REQUIRED, name: value})


@each_case("master", ["local", "local[4]", "local[*]", "spark://host:7077", "yarn"])
def test_spark_starts_a_session_or_connects_to_a_server(master: str) -> None:
    config = Config.from_environment({**REQUIRED, "SPARK_MASTER": master})
    assert (config.spark_master, config.spark_remote) == (master, "")
    with pytest.raises(ConfigError, match="must not both be set"):
        Config.from_environment({**REQUIRED, "SPARK_MASTER": master, "SPARK_REMOTE": "sc://host"})


def test_secrets_show_neither_in_errors_nor_in_the_settings_themselves() -> None:
    config = Config.from_environment(REQUIRED)
    assert "hidden" not in repr(config)
    assert "s" * 32 not in repr(config)
    with pytest.raises(ConfigError) as raised:
        Config.from_environment({**REQUIRED, "DATABASE_URL": "mysql://u:hidden@host/db"})
    assert "hidden" not in str(raised.value)


def test_a_production_start_without_a_secret_fails_with_a_clear_message() -> None:
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = ("gunicorn", "--config=python:service.web.server.gunicorn_config")
    finished = run_warm((*command, "--bind=127.0.0.1:0"), environment)
    assert finished.returncode != 0
    assert "SECRET_KEY is not set" in finished.stderr


@each_case("token", ["short", "x" * 31, f"{'x' * 32} y", f"{'x' * 32}é"])
def test_an_admin_token_that_is_short_or_no_header_value_is_rejected(token: str) -> None:
    with pytest.raises(ConfigError, match="ADMIN_TOKEN") as raised:
        Config.from_environment({**REQUIRED, "ADMIN_TOKEN": token})
    assert token not in str(raised.value)


def test_earlier_secret_keys_are_as_long_as_the_first() -> None:
    keys = f"{'a' * 32} {'b' * 32}"
    config = Config.from_environment({**REQUIRED, "SECRET_KEY_FALLBACKS": keys})
    assert config.secret_keys == ("a" * 32, "b" * 32, REQUIRED["SECRET_KEY"])
    with pytest.raises(ConfigError, match="SECRET_KEY_FALLBACKS"):
        Config.from_environment({**REQUIRED, "SECRET_KEY_FALLBACKS": "short"})


@each_case(
    ("settings", "problem"),
    [
        ({"CALL_RETENTION_DAYS": "99"}, "CALL_RETENTION_DAYS must be at least 100"),
        ({"ROLLUP_RETENTION_DAYS": "399"}, "ROLLUP_RETENTION_DAYS must be 0, which is forever"),
        ({"ROLLUP_RETENTION_DAYS": "-1"}, "ROLLUP_RETENTION_DAYS must not be negative"),
        ({"LOG_REQUESTS_SHARE": "1.5"}, "LOG_REQUESTS_SHARE must be from 0 to 1"),
    ],
)
def test_periods_that_would_lose_what_audits_need_are_rejected(
    settings: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        Config.from_environment({**REQUIRED, **settings})


@each_case(
    ("given", "problem"),
    data_of(__file__)["an_endpoint_that_the_storage_would_refuse_stops_the_start"],
)
def test_an_endpoint_that_the_storage_would_refuse_stops_the_start(
    given: dict[str, str], problem: str
) -> None:
    environment = {**REQUIRED, "STORAGE_URL": "s3://blobs", **given}
    if not problem:
        Config.from_environment(environment)
        return
    with pytest.raises(ConfigError, match=problem):
        Config.from_environment(environment)
