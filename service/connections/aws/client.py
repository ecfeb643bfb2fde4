"""Requests to AWS's JSON APIs, signed with botocore, which is loaded here and nowhere else."""

import json
from contextlib import suppress
from typing import Any, Final

from service.connections.client import (
    Client,
    MissingLibraryError,
    MissingRightError,
    ProviderDownError,
    RevokedKeyError,
    ThrottledError,
    WrongKeyError,
)
from service.connections.provider import Provider

# By name of a service: what its requests are signed for, the name of its actions, and its version
# of JSON.
_SERVICES: Final = {
    "ce": ("ce", "AWSInsightsIndexService", "1.1"),
    "monitoring": ("monitoring", "GraniteServiceVersion20100801", "1.0"),
}
_WAIT_SECONDS: Final = 60.0
_ERRORS: Final = {
    **dict.fromkeys(("AccessDeniedException", "AccessDenied"), MissingRightError),
    **dict.fromkeys(
        (
            *("UnrecognizedClientException", "InvalidClientTokenId", "ExpiredTokenException"),
            *("InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignature"),
        ),
        RevokedKeyError,
    ),
    **dict.fromkeys(("InternalServiceFault", "ServiceUnavailable"), ProviderDownError),
}
_THROTTLED: Final = ("ThrottlingException", "Throttling", "LimitExceededException")


class AWSClient(Client):
    """A path is a service, a region and an action: `ce/us-east-1/GetCostAndUsage`."""

    def __init__(self, provider: Provider, key: str, base_url: str) -> None:
        parts = key.split(":")
        if len(parts) not in (2, 3) or not all(parts[:2]):
            raise WrongKeyError
        try:
            from botocore.credentials import Credentials
        except ImportError:
            raise MissingLibraryError from None
        super().__init__(provider, "", base_url)
        self._override = base_url.rstrip("/")
        self._credentials = Credentials(*parts[:2])
        self.regions = tuple(filter(None, parts[2].split(","))) if len(parts) == 3 else ()

    def _request(self, method: str, path: str, **fields: Any) -> Any:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        service, region, action = path.split("/")
        signed_for, target, version = _SERVICES[service]
        host = self._override or f"https://{service}.{region}.amazonaws.com"
        self._base_url = f"{host}/{service}/{region}" if self._override else host
        content = json.dumps(fields["json"]).encode()
        headers = {
            "Content-Type": f"application/x-amz-json-{version}",
            "X-Amz-Target": f"{target}.{action}",
        }
        url = f"{self._base_url}/"
        request = AWSRequest(method, url, headers=headers, data=content)
        SigV4Auth(self._credentials, signed_for, region).add_auth(request)
        return super()._request(method, "/", content=content, headers=dict(request.headers))

    def _check(self, response: Any, content: bytes) -> None:
        kind = ""
        if response.status_code == 400 or response.status_code == 403:
            with suppress(ValueError, AttributeError, RecursionError):
                kind = str(json.loads(content).get("__type", "")).rpartition("#")[2]
        if kind in _THROTTLED:
            raise ThrottledError(_WAIT_SECONDS)
        if kind in _ERRORS:
            raise _ERRORS[kind]
        super()._check(response, content)
