"""What GitHub Actions shows of a gate: annotations of the change, and the summary of the step."""

from pathlib import Path
from typing import Final, TextIO

from detectors.cli.console import BadInputError, shown
from detectors.cli.gate.text import GateText

# GitHub shows no more of one step.
_MOST_ANNOTATIONS: Final = 10
_ESCAPED: Final = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_ESCAPED_IN_PROPERTY: Final = {**_ESCAPED, ":": "%3A", ",": "%2C"}


def write_annotations(text: GateText, stream: TextIO) -> None:
    """Print a workflow command for each of the first failures; standard error is read for them."""
    for name, message in text.messages()[:_MOST_ANNOTATIONS]:
        title = _escape(name, _ESCAPED_IN_PROPERTY)
        print(f"::error title={title}::{_escape(message, _ESCAPED)}", file=stream)


def _escape(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)


def write_summary(text: GateText, file: Path) -> None:
    try:
        with file.open("a", encoding="utf-8") as summary:
            summary.write(text.markdown())
    except OSError as error:
        raise BadInputError(f"cannot write {shown(file)}: {error.strerror}") from error
