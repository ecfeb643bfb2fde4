"""Requests of a few plain fields are read up to 4 KB, into nothing but these fields."""

import io
import json
import tracemalloc
from typing import Any, Final

from flask import Flask
from flask.testing import FlaskClient

from service.web.auth.csrf import MAX_FORM_BYTES
from service.web.http.bodies import SMALL_BYTES
from service.web.http.json_fields import decode_fields
from service.web.schemas.sign_in import MagicLinkSchema
from tests.cases import each_case
from tests.service.support.scenes import error_of

# What reads more, each with a credential, a signature or a size of its own.
LARGER: Final = {
    "/api/v1/ingest",
    "/api/v2/ingest",
    "/api/v1/audits",
    "/api/v1/webhooks/stripe",
    "/api/v1/webhooks/paddle",
    "/upload",
}
SMALL: Final = ("/auth/magic-link", "/auth/logout", "/api/v1/early-access")
BRACKETS: Final = b"[" + b"[]," * 100_000 + b"[]]"
BY: Final = {"REMOTE_ADDR": "fd00::5b"}


@each_case("path", SMALL)
@each_case("kind", ["application/json", "application/x-www-form-urlencoded"])
def test_a_small_body_of_one_byte_too_many_is_rejected(
    client: FlaskClient, path: str, kind: str
) -> None:
    answer = client.post(path, data=b" " * 4_097, content_type=kind, environ_base=BY)
    assert error_of(answer, 413, "payload_too_large") == "The body must be at most 4,096 bytes."


class _Endless(io.RawIOBase):
    """Sixteen megabytes of brackets, and how many bytes of them were read."""

    taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        size = min(len(into), (16 << 20) - self.taken)
        into[:size] = (b"[]," * (size // 3 + 1))[:size]
        self.taken += size
        return size


@each_case("path", SMALL)
def test_sixteen_megabytes_of_brackets_are_not_read(client: FlaskClient, path: str) -> None:
    body = _Endless()
    answer = client.post(
        path,
        content_type="application/json",
        environ_base=BY,
        environ_overrides={"wsgi.input": body, "wsgi.input_terminated": True},
    )
    assert answer.status_code == 413
    assert body.taken <= MAX_FORM_BYTES


def test_an_ordinary_sign_in_request_fits(client: FlaskClient) -> None:
    body = {"email": f"{'a' * 60}@{'b' * 60}.example", "next": "/audits/" + "x" * 1_990}
    assert len(json.dumps(body)) < SMALL_BYTES
    assert client.post("/auth/magic-link", json=body, environ_base=BY).status_code == 200
    # A form of a visitor without a session is small.
    answer = client.post("/settings/delete", data={"x": "y" * 4_096}, environ_base=BY)
    assert answer.status_code == 413


def _post_routes(app: Flask) -> set[str]:
    return {
        rule.rule for rule in app.url_map.iter_rules() if "POST" in (rule.methods or ())
    } - LARGER


def test_no_other_route_reads_a_large_body(app: Flask) -> None:
    """A route that sets no limit has the limit of forms."""
    client, routes = app.test_client(use_cookies=False), _post_routes(app)
    assert len(routes) >= 15
    for rule in sorted(routes):
        path = rule.replace("<", "").replace(">", "")
        for kind in ("application/json", "application/x-www-form-urlencoded"):
            body = b" " * (MAX_FORM_BYTES + 1)
            answer = client.post(path, data=body, content_type=kind, environ_base=BY)
            # 415 and the like come before the body is read; 404 hides the administration.
            assert answer.status_code in (400, 401, 403, 404, 413, 415), rule
            assert answer.status_code != 422, rule


def test_only_the_fields_of_the_schema_are_built() -> None:
    body = b'{"email":"a@example.org","next":null,"x":%s}' % BRACKETS
    tracemalloc.start()
    fields = decode_fields(body, MagicLinkSchema())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fields == {"email": "a@example.org", "next": None}
    assert peak < 100_000


@each_case(
    ("field", "message"),
    [("email", "email must be an email address"), ("next", "next must be a path on this site")],
)
def test_a_field_that_is_no_plain_value_is_named(
    client: FlaskClient, field: str, message: str
) -> None:
    body = {"email": "a@example.org", field: [{}]}
    answer = client.post("/auth/magic-link", json=body, environ_base=BY)
    assert error_of(answer, 422, "validation_error") == message
