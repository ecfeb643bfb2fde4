"""Raw logs with text in, counts-only JSON Lines out. No text is written anywhere.

>>> from detectors.scrub import scrub
>>> summary = scrub(["sessions/", "requests.jsonl.gz"], "usage.jsonl")

Reads requests and responses of the OpenAI and Anthropic APIs, batch outputs, Claude Code sessions,
and exports of LiteLLM and Langfuse, in any mix. The output is built from checked counts, times and
names; of a prompt only a hash remains, to find equal prompts.
"""

from detectors.scrub.files import scrub
from detectors.scrub.scrubber import Summary

__all__ = ["Summary", "scrub"]
