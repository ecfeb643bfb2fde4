"""Requests to BigQuery, with a token that the signature of a service account gets."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from joserfc import jwt
from joserfc.jwk import RSAKey

from service.connections.client import (
    MissingRightError,
    ProviderDownError,
    ThrottledError,
    TokenClient,
    WrongKeyError,
    follow_pages,
)
from service.connections.provider import Provider

_LOGIN: Final = "https://oauth2.googleapis.com"
_SIGN_IN: Final = "/token"
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform.read-only"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TOKEN_SECONDS: Final = 600
_PROJECT: Final = re.compile(r"[a-z0-9.:-]+")
# The standard export has all that we read. The detailed one has the same columns, and counts only
# where there is no other of the same billing account.
_EXPORT: Final = re.compile(r"gcp_billing_export_(resource_)?v1_(\w+)")
_THROTTLED: Final = ("rateLimitExceeded", "quotaExceeded", "jobRateLimitExceeded")
_WAIT_SECONDS: Final = 60.0
_AT_ONCE: Final = 10_000
_WAIT_MS: Final = 10_000  # less than a request may take
_MOST_WAITS: Final = 12
_MOST_BYTES: Final = 100 << 30  # of a query, for which its project pays


@dataclass(frozen=True)
class Table:
    project: str
    dataset: str
    name: str
    location: str

    def __str__(self) -> str:
        return f"{self.project}.{self.dataset}.{self.name}"


class GoogleClient(TokenClient):
    """The key is the JSON file of a service account. Its addresses aren't used, only its name."""

    def __init__(self, provider: Provider, key: str, base_url: str) -> None:
        try:
            given = json.loads(key)
            self.project, self._email = given["project_id"], given["client_email"]
            self._key = RSAKey.import_key(given["private_key"])
            if not self._key.is_private or _PROJECT.fullmatch(self.project) is None:
                raise WrongKeyError
        except Exception:  # whose texts may quote the key
            raise WrongKeyError from None
        super().__init__(provider, base_url, _LOGIN, _SIGN_IN)
        self._tables: Sequence[Table] = ()

    def form(self) -> Mapping[str, str]:
        now = int(time.time())
        times = {"iat": now, "exp": now + _TOKEN_SECONDS}
        claims = {"iss": self._email, "scope": _SCOPE, "aud": f"{_LOGIN}{_SIGN_IN}", **times}
        signed = jwt.encode({"alg": "RS256"}, claims, self._key)
        return {"grant_type": _GRANT, "assertion": signed}

    def _check(self, response: Any, content: bytes) -> None:
        if response.status_code == 403:
            with suppress(ValueError, LookupError, TypeError, RecursionError):
                if json.loads(content)["error"]["errors"][0]["reason"] in _THROTTLED:
                    raise ThrottledError(_WAIT_SECONDS)
        super()._check(response, content)

    def find_tables(self) -> Sequence[Table]:
        """Return the export of each billing account that the key can see in its own project."""
        if not self._tables:
            found: dict[str, Table] = {}
            root = f"/projects/{self.project}/datasets"
            for dataset in self._list(root, "datasets"):
                name = dataset["datasetReference"]["datasetId"]
                for each in self._list(f"{root}/{quote(name, safe='')}/tables", "tables"):
                    table = each["tableReference"]["tableId"]
                    if match := _EXPORT.fullmatch(table):
                        is_detailed, account = match.groups()
                        if not is_detailed or account not in found:
                            found[account] = Table(self.project, name, table, dataset["location"])
            self._tables = list(found.values())
        if not self._tables:
            raise MissingRightError
        return self._tables

    def _list(self, path: str, members: str) -> Iterator[Any]:
        pages = follow_pages(
            lambda token: self.get(path, [("maxResults", "1000"), *_page(token)]),
            lambda body: body.get("nextPageToken"),
        )
        return (each for page in pages for each in page.get(members, ()))

    def query(
        self, table: Table, query: str, parameters: Mapping[str, tuple[str, str]]
    ) -> list[Any]:
        """Return the pages of a query's rows. A parameter is a type and a text."""
        path = f"/projects/{self.project}/queries"
        asked = {
            "query": query.replace("{table}", f"`{table}`"),
            "useLegacySql": False,
            "location": table.location,
            "maximumBytesBilled": str(_MOST_BYTES),
            "maxResults": _AT_ONCE,
            "timeoutMs": _WAIT_MS,
            "parameterMode": "NAMED",
            "queryParameters": [
                {"name": name, "parameterType": {"type": kind}, "parameterValue": {"value": value}}
                for name, (kind, value) in parameters.items()
            ],
        }
        body, waits = self.post(path, asked), 0
        job = body["jobReference"]
        results = f"{path}/{quote(job['jobId'], safe='')}"
        shared = [("location", job["location"]), ("maxResults", str(_AT_ONCE))]
        while not body["jobComplete"]:
            waits += 1
            if waits > _MOST_WAITS:
                raise ProviderDownError
            body = self.get(results, [*shared, ("timeoutMs", str(_WAIT_MS))])
        return follow_pages(
            lambda token: self.get(results, [*shared, *_page(token)]) if token else body,
            lambda page: page.get("pageToken"),
        )


def _page(token: str) -> Sequence[tuple[str, str]]:
    return [("pageToken", token)] if token else []
