"""A process that captures, and whose records nobody takes."""

from collections.abc import Iterator

import pytest

from tests.client.collector import Collector, refusing_dsn
from tests.client.offline import capturing
from tests.client.provider_stub import ProviderStub


@pytest.fixture
def captured() -> Iterator[None]:
    """The client is on; look at `queued()` for what it has recorded."""
    with capturing(refusing_dsn()):
        yield


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def provider_stub() -> Iterator[ProviderStub]:
    with ProviderStub() as provider_stub:
        yield provider_stub
