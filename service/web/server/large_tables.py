"""Write one table to stdout: `python -P -m service.web.server.large_tables`, with the job in stdin.

`tables.py` starts it for each large table, with its own settings and a description of the table.
"""

import os
import shutil
import sys

import msgspec

from service.config import Config
from service.core.db import make_engine, make_session_factory
from service.errors import InvalidRequestError
from service.models.base import Lock, try_lock
from service.web.http.finding_tables import FindingTable
from service.web.http.spend_tables import SpendTable
from service.web.http.tables import BUSY, REJECTED, write_table

_NICENESS = 5  # below the web processes, whose clients wait for less


def main() -> None:
    os.nice(_NICENESS)
    config, table = msgspec.json.decode(
        sys.stdin.buffer.read(), type=tuple[Config, SpendTable | FindingTable]
    )
    with make_session_factory(make_engine(config))() as session:
        # Until this process ends, however it does.
        if not try_lock(session, Lock.LARGE_EXPORTS, table.account_id, until_closed=True):
            sys.exit(BUSY)
        try:
            file = write_table(table, session)
        except InvalidRequestError as error:  # more rows than a sheet has
            sys.stdout.write(str(error))
            sys.exit(REJECTED)
        with file:
            shutil.copyfileobj(file, sys.stdout.buffer)


if __name__ == "__main__":
    main()
