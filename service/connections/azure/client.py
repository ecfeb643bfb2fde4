"""Requests to Azure's management API, with a token that a service principal's secret gets."""

import re
from collections.abc import Mapping
from typing import Any, Final

from service.connections.client import (
    ThrottledError,
    TokenClient,
    WrongKeyError,
    read_retry_after,
)
from service.connections.provider import Provider

_LOGIN: Final = "https://login.microsoftonline.com"
_ID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WAIT_SECONDS: Final = 60.0


class AzureClient(TokenClient):
    """The key is `tenant:client:secret:subscription`; only the secret may be anything."""

    def __init__(self, provider: Provider, key: str, base_url: str) -> None:
        parts = key.split(":")
        ids = (*parts[:2], parts[-1])
        if len(parts) < 4 or not all(map(_ID.fullmatch, ids)):
            raise WrongKeyError
        super().__init__(provider, base_url, _LOGIN, f"/{parts[0]}/oauth2/v2.0/token")
        self._client, self._secret = parts[1], ":".join(parts[2:-1])
        self.subscription = parts[-1].lower()

    def form(self) -> Mapping[str, str]:
        return {
            "grant_type": "client_credentials",
            "client_id": self._client,
            "client_secret": self._secret,
            "scope": "https://management.azure.com/.default",
        }

    def _check(self, response: Any, content: bytes) -> None:
        if response.status_code == 429:
            # Cost Management has its own headers, and the longest of them counts.
            waits = [
                read_retry_after(value)
                for name, value in response.headers.items()
                if name.lower().endswith("retry-after")
            ]
            raise ThrottledError(max(waits, default=_WAIT_SECONDS))
        super()._check(response, content)
