"""Valid and invalid email addresses."""

import pytest

from service.mail.addresses import find_address

GOOD = [
    "ada@example.org",
    "a@b.c",
    "first.last+tag@sub.example.co.uk",
    "o'brien@example.org",
    "x_-!#$%&*/?=^`{|}~@example.org",
    "root@localhost",
    f"{'a' * 64}@example.org",
]
BAD = [
    "",
    "ada",
    "@example.org",
    "ada@",
    "ada@@example.org",
    "ada@example.org@example.org",
    "a da@example.org",
    ".ada@example.org",
    "ada.@example.org",
    "a..da@example.org",
    "ada@-example.org",
    "ada@example..org",
    "ada@.example.org",
    "ada@exa_mple.org",
    "ada@[127.0.0.1]",
    '"ada lovelace"@example.org',
    "Ada <ada@example.org>",
    "ada@example.org,eve@example.org",
    "ada@example.org\nBcc: eve@example.org",
    "ada@example.org\r\nBcc: eve@example.org",
    "ada\n@example.org",
    "ada\0@example.org",
    "ad\xe4@example.org",
    "ada@ex\u0430mple.org",
    "ada\u202e@example.org",
    "=?utf-8?q?=0abcc?=@example.org",
    f"{'a' * 65}@example.org",
    f"ada@{'a.' * 130}org",
]


@pytest.mark.parametrize("text", GOOD)
def test_an_address_passes(text: str) -> None:
    assert find_address(text) == text


@pytest.mark.parametrize("text", BAD)
def test_anything_else_does_not(text: str) -> None:
    assert find_address(text) is None


def test_case_and_spaces_around_do_not_matter() -> None:
    assert find_address(" ADA@Example.ORG\n") == "ada@example.org"
