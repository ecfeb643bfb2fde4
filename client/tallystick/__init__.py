"""Counts every OpenAI and Anthropic call of this process and sends the counts to be audited.

`init()` is all that most programs need. What is here is all that programs may rely on.
"""

from tallystick.client import close, flush, init, record, stats
from tallystick.labels import tag
from tallystick.version import __version__

__all__ = ["__version__", "close", "flush", "init", "record", "stats", "tag"]
