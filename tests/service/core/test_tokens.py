"""The secrets that the service issues."""

import hashlib
import re

from service.core import tokens
from service.core.tokens import Kind
from tests.cases import each_case


@each_case("kind", Kind)
def test_a_secret_is_a_prefix_random_characters_and_a_checksum(kind: Kind) -> None:
    secret = tokens.mint(kind)
    assert re.fullmatch(rf"{kind}[0-9A-Za-z]{{38}}", secret)
    random = secret.removeprefix(kind)[:32]
    assert tokens.find_hash(kind, secret) == hashlib.sha256(random.encode()).digest()


def test_secrets_have_a_checksum_and_one_kind() -> None:
    minted = {tokens.mint(Kind.INGEST_KEY) for _ in range(2000)}
    assert len(minted) == 2000
    assert len(set("".join(one[3:35] for one in minted))) == 62
    # The checksum is the crc of the random part in base 62.
    # CRC32 of 32 times "a" is 3400603511
    # = 3·62⁵ + 44·62⁴ + 8·62³ + 36·62² + 19·62 + 45; digits, capitals, letters.
    assert tokens.find_hash(Kind.INGEST_KEY, "ik_" + "a" * 32 + "3i8aJj") is not None
    # A secret of one kind is none of another.
    secret = tokens.mint(Kind.INGEST_KEY)
    assert tokens.find_hash(Kind.READ_TOKEN, secret) is None
    assert tokens.find_hash(Kind.READ_TOKEN, secret.replace("ik_", "rt_")) is not None


@each_case(
    "odd", ["", "ik_", "ik_short", "ik_" + "a" * 38, "\u0661" * 41, "ik_" + "\u00e9" * 38, "ik_\0"]
)
def test_anything_else_has_no_hash(odd: str) -> None:
    assert tokens.find_hash(Kind.INGEST_KEY, odd) is None


@each_case("spelling", ["{0} ", " {0}", "{0}\n", "{0}a", "\0{0}"])
def test_a_secret_has_one_spelling(spelling: str) -> None:
    secret = spelling.format(tokens.mint(Kind.INGEST_KEY))
    assert tokens.find_hash(Kind.INGEST_KEY, secret) is None


def test_the_shown_prefix_contains_four_characters() -> None:
    secret = tokens.mint(Kind.READ_TOKEN)
    assert tokens.shown_prefix(secret) == secret[:7]


def test_a_derived_secret_is_well_formed_and_belongs_to_its_row_kind_and_key() -> None:
    secret, secret_hash = tokens.derive(Kind.MAGIC_LINK, "key", "row")
    assert tokens.derive(Kind.MAGIC_LINK, "key", "row") == (secret, secret_hash)
    assert tokens.find_hash(Kind.MAGIC_LINK, secret) == secret_hash
    assert tokens.find_hash(Kind.WEB_SESSION, secret) is None
    others = [
        tokens.derive(Kind.WEB_SESSION, "key", "row"),
        tokens.derive(Kind.MAGIC_LINK, "yek", "row"),
    ]
    others.append(tokens.derive(Kind.MAGIC_LINK, "key", "wor"))
    assert len({secret_hash, *(one for _, one in others)}) == 4
