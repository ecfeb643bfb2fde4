"""`python -m tallystick check`, and `tallystick-check`, which is the same."""

from __future__ import annotations

import os
import sys

from tallystick.sending.dsn import VARIABLE

USAGE = """usage: python -m tallystick check [--allow-http]

Check that the DSN in SERVICE_DSN is right and that records can be sent. Sends an
empty batch, which counts for nothing. The exit status is 0 if records can be
sent, 1 if not, and 2 for a command that does not exist.
"""


def main() -> int:
    """Run the command of the arguments."""
    command, *options = sys.argv[1:] or [""]
    if command != "check" or not set(options) <= {"--allow-http"}:
        is_help = {command, *options} & {"-h", "--help"}
        (sys.stdout if is_help else sys.stderr).write(USAGE)
        return 0 if is_help else 2
    from tallystick.sending.checking import check

    verdict = check(os.environ.get(VARIABLE, ""), allow_http="--allow-http" in options)
    if verdict.can_send:
        sys.stdout.write(f"OK: {verdict.sentence}\n")
        return 0
    sys.stderr.write(f"Error: {verdict.sentence}\n")
    return 1


def check() -> int:
    """Run the check, as `tallystick-check`."""
    sys.argv[1:1] = ["check"]
    return main()


if __name__ == "__main__":
    sys.exit(main())
