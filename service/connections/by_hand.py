"""A provider whose reports come by hand alone: nothing is requested of it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from service.connections.provider import (
    Asking,
    Name,
    Page,
    Provider,
    Report,
    Sight,
    Window,
)


class ByHand(Provider):
    base_url = key_prefix = key_page = key_words = ""
    reports: Sequence[Report] = ()

    def __init__(self, name: str, title: str) -> None:
        self.name, self.title = name, title

    def headers(self, key: str) -> Mapping[str, str]:
        return {}

    def parameters(self, window: Window, page: str | None) -> Sequence[tuple[str, str]]:
        return ()

    def read_page(self, report: Report, body: Any) -> Page:
        return Page({}, None)

    def look(self, client: Asking, now: datetime) -> Sight:
        return Sight("", 0, None)

    def list_names(self, client: Asking) -> Iterator[Name]:
        return iter(())
