"""Labels that some mail program or chat makes a link of."""

from typing import Final

LINKS: Final = (
    "https://evil.example",
    "evil.example",
    "evil.example.",
    "evil.com...",
    "evil.com/login",
    "www.evil",
    "evil.photography",
    "evil.international",
    "evil.vermögensberatung",
    "evil.xn--p1ai",
    "xn--e1afmkfd.xn--p1ai.",
    "пример.рф",
    "例え.テスト",
    "भारत.भारत",
    "evil。com",
    "evil．com",
    "someone@evil",
    "mailto:someone",
    "sms:+15550100",
    "\\\\evil\\share",
    "192.0.2.1/login",
)
