"""Count every model provider's call of this process and send the counts to be audited.

Most programs only need `init()`. The names here are the public API.
"""

from tallystick.client import close, flush, init, record, stats
from tallystick.labels import keep_labels, session, tag
from tallystick.version import __version__

__all__ = [
    "__version__",
    "close",
    "flush",
    "init",
    "keep_labels",
    "record",
    "session",
    "stats",
    "tag",
]
