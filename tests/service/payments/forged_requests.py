"""Twenty requests per payment provider with an invalid signature."""

import hmac
import json

from tests.service.payments.providers import PADDLE, STRIPE, Provider

Request = tuple[bytes, dict[str, str]]


def forged_requests(provider: Provider, account_id: str) -> dict[str, Request]:
    """Each would grant the account a credit if it were believed."""
    document = provider.paid(account_id)
    body, headers = provider.signed(document)
    signature = headers[provider.header]
    stamp, digest = signature.split(provider.separator)
    now, key = stamp.partition("=")[2], provider.signature_key
    foreign = PADDLE if provider is STRIPE else STRIPE
    headers_alone = {
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
        "a signature that leaves the time out": f"{stamp}{provider.separator}{key}="
        + hmac.digest(provider.secret.encode(), body, "sha256").hex(),
    }
    bodies = {
        "one byte more": body + b" ",
        "a mark before the first byte": b"\xef\xbb\xbf" + body,
        "the same JSON written otherwise": json.dumps(json.loads(body), indent=1).encode(),
        "a body that is no UTF-8": body.replace(b"{", b"{\xff", 1),
    }
    found = {label: (body, {provider.header: header}) for label, header in headers_alone.items()}
    found |= {label: (one, {provider.header: signature}) for label, one in bodies.items()}
    for label, secret in (("an empty secret", ""), ("another secret", provider.secret + " ")):
        body, headers = provider.signed(document, secret=secret)
        found[label] = body, {provider.header: headers[provider.header]}
    assert len(found) == 20
    return found
