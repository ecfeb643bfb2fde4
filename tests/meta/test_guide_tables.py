"""The tables in docs/api match the errors and limits in the code."""

import re
from pathlib import Path

from detectors.contract import MAX_BATCH_RECORDS, RECORD_FIELDS, RECORD_V2_FIELDS, UNITS
from service.config import Config
from service.errors import MESSAGES, OAUTH_CODES, code_for
from service.models.access.credentials import MAX_READ_TOKENS
from service.models.access.oauth import CODE_SECONDS, MAX_APPLICATIONS, TOKEN_SECONDS
from service.models.identity.accounts import KEY_LIMITS
from tests.cases import each_case

GUIDES = Path(__file__).parents[2] / "docs" / "api"
USUAL = Config(
    secret_key="s" * 32,
    database_url="postgresql:///",
    redis_url="redis://localhost",
    storage_url="file:///",
)


def _told(guide: str) -> set[tuple[int, str]]:
    """Each status of a table with the code beside it."""
    text = (GUIDES / f"{guide}.md").read_text()
    rows = re.findall(r"^\| ([0-9, ]+) \| `(\w+)` \|", text, re.MULTILINE)
    return {(int(status), code) for statuses, code in rows for status in statuses.split(",")}


def test_statuses_and_errors_stand_in_their_guides() -> None:
    assert _told("errors") == {(status, code_for(status)) for status in MESSAGES}
    # Every error of a program stands in the guide to oauth.
    of_the_standard = {(400, "invalid_grant"), (400, "unsupported_grant_type")}
    assert _told("oauth") == of_the_standard | set(OAUTH_CODES.items())


@each_case(
    ("thing", "value"),
    [
        ("records of a batch", f"1 to {MAX_BATCH_RECORDS:,}"),
        (
            "ingest, both versions together",
            f"{USUAL.ingest_key_limit_per_minute} requests a minute and key,"
            f" {USUAL.ingest_ip_limit_per_minute} a minute and address",
        ),
        (
            "OpenTelemetry requests",
            f"{USUAL.otlp_key_limit_per_minute:,} a minute and key,"
            f" {USUAL.otlp_ip_limit_per_minute:,} a minute and address",
        ),
        ("uploads", f"{USUAL.upload_limit_per_minute} a minute and person"),
        ("reads", f"{USUAL.read_limit_per_minute} a minute, route and token"),
        ("OAuth token calls", f"{USUAL.oauth_limit_per_minute} a minute and address"),
        ("sign-in links, early access", f"{USUAL.magic_link_limit_per_minute} a minute"),
        ("ingest keys", f"{KEY_LIMITS['pro']} on Pro, {KEY_LIMITS['team']} on Team"),
        ("read tokens, applications", f"{MAX_READ_TOKENS} and {MAX_APPLICATIONS} of an account"),
        ("an authorization code", f"{CODE_SECONDS // 60} minutes, once"),
        ("an access token", f"{TOKEN_SECONDS // 86_400} days"),
    ],
)
def test_what_holds_stands_in_the_guide_to_limits(thing: str, value: str) -> None:
    assert f"| {thing} | {value} |" in (GUIDES / "limits.md").read_text()


def _fields(text: str) -> list[str]:
    """Return the names in the first cells of the tables."""
    cells = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_guides_list_the_fields_and_units_of_the_record() -> None:
    # A new field is described there and in the guide, or this fails.
    readme = (GUIDES.parents[1] / "README.md").read_text()
    section = readme.partition("## The usage record")[2].partition("\n## ")[0]
    first, second = section.split("The second version of the record")
    assert sorted(_fields(first)) == sorted(RECORD_FIELDS)
    assert sorted(_fields(second)) == sorted(set(RECORD_V2_FIELDS) - set(RECORD_FIELDS))
    # The guide to ingest names units that exist.
    table = (GUIDES / "ingest.md").read_text().partition("**Units.**")[2].partition("```")[0]
    named = _fields(table)
    assert set(named) <= set(UNITS)
    # Those of audio, image and video are named as those of text.
    kinds = re.compile("_(audio|image|video)_")
    assert {kinds.sub("_text_", name) for name in UNITS} - {
        kinds.sub("_text_", name) for name in named
    } == set()


def test_the_guide_to_ingest_lists_the_further_fields_of_the_record() -> None:
    section = (GUIDES / "ingest.md").read_text().partition("**More fields.**")[2]
    further = set(RECORD_V2_FIELDS) - set(RECORD_FIELDS)
    assert sorted(_fields(section.partition("**Units.**")[0])) == sorted(further)
