"""How the detectors judge, in the words of their own modules."""

import inspect
import re
from collections.abc import Iterable
from sys import modules
from typing import Final

from detectors.contract import Method
from detectors.rules import DETECTORS
from detectors.rules.detector import Detector

_HEADING: Final = re.compile(r"^(\w[\w ]+)\n-+\n", re.MULTILINE)
_FIELDS: Final = ("costs_you", "fires_on", "stays_quiet_on", "do_instead", "sources")


def _methods(detectors: Iterable[Detector]) -> tuple[Method, ...]:
    # Python leaves docstrings out where it is told to (-OO); then the report goes without.
    documented = ((one, inspect.getdoc(modules[one.find.__module__])) for one in detectors)
    return tuple(_method(one.id, text) for one, text in documented if text)


def _method(detector: str, text: str) -> Method:
    title, *parts = _HEADING.split(text)
    sections = {
        heading.lower().replace(" ", "_"): " ".join(words.replace("`", "").split())
        for heading, words in zip(parts[::2], parts[1::2], strict=True)
    }
    return Method(
        detector=detector,
        title=title.strip().removesuffix("."),
        **{name: sections[name] for name in _FIELDS},
    )


METHODS: Final = _methods(DETECTORS)
