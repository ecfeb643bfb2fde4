"""Whether a refusal is one sentence that says what to do."""

import re
from typing import Final

# What to do follows a colon, a semicolon or a comma.
REMEDY: Final = re.compile(
    r"[:;,] (?:add|check|create|export|fix|give|log|put|remove|rename|run|send|split|unpack|use)\b"
)


def is_one_sentence(words: str) -> bool:
    """Check for one sentence that says what to do."""
    ends = re.findall(r"[.!?](?=\s|$)", words)
    return len(ends) == 1 and words.endswith(".") and REMEDY.search(words) is not None
