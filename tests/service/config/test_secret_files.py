"""Every secret may come from a file instead of the environment."""

from pathlib import Path

import pytest

from service.config import SECRETS, Config
from service.config.secret_files import overlay
from service.errors import ConfigError
from tests.cases import each_case

KEY = "a secret key for tests, 32 or longer"
REQUIRED = {
    "SECRET_KEY": KEY,
    "DATABASE_URL": "postgresql://user:password@host/name",
    "REDIS_URL": "redis://:password@host",
    "STORAGE_URL": "file:///blobs",
}
VALUES = {
    "SECRET_KEY": "x" * 40,
    "DATABASE_URL": "postgresql://other/name",
    "MIGRATION_DATABASE_URL": "postgresql://owner/name",
    "REDIS_URL": "redis://other",
    "SECRET_KEY_FALLBACKS": f"{'y' * 32}\n{'z' * 32}",
    "ENCRYPTION_KEY": "e" * 32,
    "ENCRYPTION_KEY_FALLBACKS": "f" * 32,
    "ADMIN_TOKEN": "t" * 32,
    "SMTP_URL": "smtp://user:password@mail",
    "STRIPE_WEBHOOK_SECRET": "whsec_x",
    "PADDLE_WEBHOOK_SECRET": "pdl_x",
    "BACKUP_KEY": f"AGE-SECRET-KEY-1{'Q' * 58}",
    "SENTRY_DSN": "https://key@sentry.example.com/1",
    "TRACES_HEADERS": "authorization=Bearer key",
    "SPARK_REMOTE": "sc://spark.example.com/;token=t",
}
DOC = Path(__file__).parents[3] / "docs" / "settings.md"


def test_every_secret_setting_is_tried_here() -> None:
    assert set(SECRETS) == set(VALUES)
    documented = DOC.read_text()
    assert [name for name in SECRETS if f"`{name}_FILE`" not in documented] == []


@each_case("name", SECRETS)
def test_a_secret_is_read_from_its_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(f"\n {VALUES[name]} \n")
    given = {key: value for key, value in REQUIRED.items() if key != name}
    config = Config.from_environment({**given, f"{name}_FILE": str(path)})
    assert getattr(config, name.lower()) == VALUES[name]
    assert VALUES[name] not in repr(config)


def test_a_secret_in_both_is_an_error_that_repeats_neither(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("canary" * 8)
    with pytest.raises(ConfigError, match="either ADMIN_TOKEN or ADMIN_TOKEN_FILE") as caught:
        Config.from_environment(
            {**REQUIRED, "ADMIN_TOKEN": "t" * 32, "ADMIN_TOKEN_FILE": str(path)}
        )
    assert "canary" not in str(caught.value)


@each_case(
    ("content", "reason"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"\xff\xfe\x00", "isn't text"),
        (b"x" * 70_000, "is too large"),
    ],
)
def test_a_file_that_is_no_secret_stops_the_start(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"SECRET_KEY_FILE can't be used: .*{reason}"):
        Config.from_environment({**REQUIRED, "SECRET_KEY": "", "SECRET_KEY_FILE": str(path)})


def test_a_device_that_never_ends_does_not_hang() -> None:
    with pytest.raises(ConfigError, match="too large"):
        Config.from_environment({**REQUIRED, "SECRET_KEY": "", "SECRET_KEY_FILE": "/dev/zero"})


def test_a_file_of_fallbacks_may_be_empty(tmp_path: Path) -> None:
    """It must be there before a rotation begins, and after it ends."""
    path = tmp_path / "fallbacks"
    path.touch()
    config = Config.from_environment({**REQUIRED, "SECRET_KEY_FALLBACKS_FILE": str(path)})
    assert config.secret_keys == (KEY,)


def test_other_settings_and_values_are_not_read_from_files() -> None:
    config = Config.from_environment({**REQUIRED, "LOG_LEVEL_FILE": "/nowhere"})
    assert config.log_level == "INFO"
    # Other values replace files.
    environment = {"SECRET_KEY_FILE": "/nowhere", "ADMIN_TOKEN_FILE": "/there", "PATH": "/bin"}
    assert overlay(environment, {"SECRET_KEY": KEY}) == {
        "SECRET_KEY": KEY,
        "ADMIN_TOKEN_FILE": "/there",
        "PATH": "/bin",
    }
