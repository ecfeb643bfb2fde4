"""Requests that commands send to the service on this machine."""

import http.client
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from service.cli.command import CommandError
from service.config import Config

_TIMEOUT_SECONDS = 30


class LocalService(NamedTuple):
    """A running service: its settings and where it listens."""

    config: Config
    port: int


class LocalAnswer(NamedTuple):
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


def call(
    port: int, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
) -> LocalAnswer:
    """Send one request; raise `CommandError` unless the response is 2xx."""
    shown = f"{method} {path.partition('?')[0]}"  # the query may hold a secret
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        answer = LocalAnswer(response.headers, response.read())
    except (OSError, http.client.HTTPException) as error:
        raise CommandError(f"{shown} got no response") from error
    finally:
        connection.close()
    if response.status >= http.client.MULTIPLE_CHOICES:
        message = ""
        with suppress(msgspec.DecodeError, KeyError, TypeError):
            message = answer.json["error"]["message"]
        raise CommandError(f"{shown}: {response.status} {message}")
    return answer


def call_json(port: int, secret: str, method: str, path: str, body: bytes | None = None) -> Any:
    """Send one request to the API with a key or token, and decode the response."""
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    return call(port, method, path, headers, body).json
