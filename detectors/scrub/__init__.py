"""Raw logs with text in, counts-only JSON Lines out: nothing of the text is written anywhere.

>>> from detectors.scrub import scrub
>>> summary = scrub(["sessions/", "requests.jsonl.gz"], "usage.jsonl")

It reads what OpenAI's and Anthropic's interfaces were asked and answered, batch outputs, sessions
of Claude Code, and exports of LiteLLM and Langfuse, mixed as they come. What it writes is built
from checked counts, instants and names; a prompt leaves only the hash that tells equal ones.
"""

from detectors.scrub.files import scrub
from detectors.scrub.scrubber import Summary

__all__ = ["Summary", "scrub"]
