"""Raw logs with text in, counts-only JSON Lines out: nothing of the text is written anywhere.

>>> from detectors.scrub import scrub
>>> summary = scrub(["sessions/", "requests.jsonl.gz"], "usage.jsonl")

It reads what OpenAI's and Anthropic's interfaces were asked and answered, batch outputs, sessions
of Claude Code, and exports of LiteLLM and Langfuse, mixed as they come. What it writes is built
from checked counts, instants and names; a prompt leaves only the hash that tells equal ones.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from detectors.scrub.output import writing
from detectors.scrub.scrubber import Scrubber
from detectors.scrub.summary import Summary
from detectors.scrub.texts import find_files

__all__ = ["Summary", "scrub"]


def scrub(sources: Iterable[str | os.PathLike[str]], out: str | os.PathLike[str]) -> Summary:
    """Write the calls of raw logs, files or folders of them, as one counts-only log.

    Parameters
    ----------
    sources
        Files of JSON lines or arrays, gzipped or not, or folders of such files.
    out
        The file to write; it appears only once everything is read.

    Raises
    ------
    UnreadableLogError
        A file breaks off, or is gzip and broken.
    OSError
        A file cannot be read or written.
    """
    scrubber = Scrubber()
    with writing(Path(out)) as file:
        for source in sources:
            for path in find_files(Path(source)):
                with path.open("rb") as log:
                    file.writelines(scrubber.read(log))
    return scrubber.summary
