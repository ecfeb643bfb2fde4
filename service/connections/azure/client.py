"""Requests to Azure's management API, with a token that a service principal's secret gets."""

import re
from typing import Any, Final
from urllib.parse import quote

from service.connections.client import (
    Client,
    RevokedKeyError,
    ThrottledError,
    WrongKeyError,
    read_retry_after,
)
from service.connections.provider import Provider

_LOGIN: Final = "https://login.microsoftonline.com"
_ID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WAIT_SECONDS: Final = 60.0


class AzureClient(Client):
    """The key is `tenant:client:secret:subscription`; only the secret may be anything."""

    def __init__(self, provider: Provider, key: str, base_url: str) -> None:
        parts = key.split(":")
        ids = (*parts[:2], parts[-1])
        if len(parts) < 4 or not all(map(_ID.fullmatch, ids)):
            raise WrongKeyError
        super().__init__(provider, "", base_url)
        self._management = self._base_url
        self._login = self._base_url if base_url else _LOGIN
        self._sign_in = f"/{parts[0]}/oauth2/v2.0/token"
        self._client, self._secret = parts[1], ":".join(parts[2:-1])
        self.subscription = parts[-1].lower()
        self._token = ""

    def _try(self, method: str, path: str, **fields: Any) -> Any:
        if not self._token:
            form = {
                "grant_type": "client_credentials",
                "client_id": self._client,
                "client_secret": self._secret,
                "scope": "https://management.azure.com/.default",
            }
            content = "&".join(f"{name}={quote(value, safe='')}" for name, value in form.items())
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            sign_in = {"content": content.encode(), "headers": headers}
            self._token = str(super()._try("POST", self._sign_in, **sign_in)["access_token"])
        return super()._try(method, path, **fields)

    def _request(self, method: str, path: str, **fields: Any) -> Any:
        self._base_url = self._login if path == self._sign_in else self._management
        if path != self._sign_in:
            fields["headers"] = {"Authorization": f"Bearer {self._token}"}
        return super()._request(method, path, **fields)

    def _check(self, response: Any, content: bytes) -> None:
        if response.status_code == 429:
            # Cost Management has its own headers, and the longest of them counts.
            waits = [
                read_retry_after(value)
                for name, value in response.headers.items()
                if name.lower().endswith("retry-after")
            ]
            raise ThrottledError(max(waits, default=_WAIT_SECONDS))
        if response.status_code == 400 and self._base_url == self._login and not self._token:
            raise RevokedKeyError  # a wrong tenant or client, which is no 401 here
        super()._check(response, content)
