"""The report section on how the detectors work, from the docstrings of their modules."""

import inspect
import re
from collections.abc import Iterable
from sys import modules
from typing import Final

from detectors.contract import Method
from detectors.rules import DETECTORS
from detectors.rules.detector import Detector
from detectors.wording.names import read_introduction

_HEADING: Final = re.compile(r"^(\w[\w ]+)\n-+\n", re.MULTILINE)
_FIELDS: Final = ("costs_you", "fires_on", "stays_quiet_on", "do_instead", "sources")


def _methods(detectors: Iterable[Detector]) -> tuple[Method, ...]:
    # `python -OO` strips docstrings; the report then has no such section.
    documented = ((each, inspect.getdoc(modules[each.find.__module__])) for each in detectors)
    found = []
    for detector, text in documented:
        if text:
            introduction, *parts = _HEADING.split(text)
            sections = {
                heading.lower().replace(" ", "_"): " ".join(words.replace("`", "").split())
                for heading, words in zip(parts[::2], parts[1::2], strict=True)
            }
            method = Method(
                detector=detector.id,
                title=read_introduction(introduction).name,
                evidence=detector.evidence,
                **{name: sections[name] for name in _FIELDS},
            )
            found.append(method)
    return tuple(found)


METHODS: Final = _methods(DETECTORS)
