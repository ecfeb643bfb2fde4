"""Twenty requests per payment provider with an invalid signature."""

import hmac
import json
import time
from collections.abc import Iterator

from tests.service.payments.providers import PADDLE, STRIPE, Provider

Request = tuple[bytes, dict[str, str]]


def forged_requests(provider: Provider, account_id: str) -> dict[str, Request]:
    """Each would grant the account a credit if it were believed."""
    document = provider.paid(account_id)
    body, headers = provider.signed(document)
    signature = headers[provider.header]
    found = {
        **dict(_of_headers(provider, body, signature)),
        **dict(_of_bodies(provider, body, signature)),
        **dict(_of_secrets(provider, document)),
    }
    assert len(found) == 20
    return {label: (one, {provider.header: header}) for label, (one, header) in found.items()}


def _of_headers(
    provider: Provider, body: bytes, signature: str
) -> Iterator[tuple[str, tuple[bytes, str]]]:
    stamp, digest = signature.split(provider.separator)
    now = stamp.partition("=")[2]
    key = provider.signature_key
    foreign = PADDLE if provider is STRIPE else STRIPE
    for label, header in {
        "no header": "",
        "a header without sense": "sesame",
        "the time alone": stamp,
        "the signature alone": digest,
        "another time": signature.replace(now, str(int(now) - 7)),
        "two times": f"{provider.time_key}={int(now) - 7}{provider.separator}{signature}",
        "a time that is no number": signature.replace(now, "now"),
        "a time below zero": signature.replace(now, f"-{now}"),
        "the signature in another scheme": signature.replace(f"{key}=", "v0="),
        "half a signature": signature[:-32],
        "a signature in capitals": f"{stamp}{provider.separator}{key}={digest[3:].upper()}",
        "a signature that is not ASCII": f"{stamp}{provider.separator}{key}=\u00e9\u00e9",
        "the other provider's header": foreign.separator.join(
            (f"{foreign.time_key}={now}", f"{foreign.signature_key}={digest[3:]}")
        ),
    }.items():
        yield label, (body, header)


def _of_bodies(
    provider: Provider, body: bytes, signature: str
) -> Iterator[tuple[str, tuple[bytes, str]]]:
    yield "one byte more", (body + b" ", signature)
    yield "a mark before the first byte", (b"\xef\xbb\xbf" + body, signature)
    yield (
        "the same JSON written otherwise",
        (json.dumps(json.loads(body), indent=1).encode(), signature),
    )
    yield "a body that is no UTF-8", (body.replace(b"{", b"{\xff", 1), signature)


def _of_secrets(
    provider: Provider, document: dict[str, object]
) -> Iterator[tuple[str, tuple[bytes, str]]]:
    for label, secret in (("an empty secret", ""), ("another secret", provider.secret + " ")):
        body, headers = provider.signed(document, secret=secret)
        yield label, (body, headers[provider.header])
    now = int(time.time())
    digest = hmac.digest(provider.secret.encode(), body, "sha256").hex()
    header = f"{provider.time_key}={now}{provider.separator}{provider.signature_key}={digest}"
    yield "a signature that leaves the time out", (body, header)
