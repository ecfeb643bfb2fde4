"""Brings the ledger up to date: finds files that have changed, and reads what is new in them."""

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from detectors.agents.folders import File, Source, data_folder, find_files, find_sources
from detectors.agents.ledger import Ledger

if TYPE_CHECKING:
    from detectors.agents.files import FileRead

# Starting a second process takes as long as reading so many bytes.
_PARALLEL_BYTES: Final = 24 << 20
BATCH_FILES: Final = 256
_FIRST_FILES: Final = 16
_MOST_PROCESSES: Final = 4


def update(
    ledger: Ledger,
    sources: Iterable[Source] | None = None,
    *,
    processes: int | None = None,
    files_at_once: int = BATCH_FILES,
    prices: bool = False,
) -> list[str]:
    """Read what is new in the files of these sources; return what could not be read, and why.

    What is read of at most `files_at_once` files is in memory, and then in the ledger: of few at
    first, so that the ledger doesn't wait, and then of more, because each commit writes the same
    pages again. With `prices`, their calls are priced then, while other processes read on.
    """
    problems: list[str] = []
    if sources is None:
        sources = find_sources(os.environ, Path.home())
    known = ledger.known_files()
    changed = [
        file
        for source in sources
        if source.adapter
        for file in find_files(source, problems)
        if (file.size, file.mtime_ns, file.inode) != known.get(file.path)
    ]
    found = _read_all(changed, ledger, processes) if changed else iter(())
    rates = None
    if prices and changed:
        from detectors.agents.pricing import LedgerRates

        rates = LedgerRates(ledger, prices_version())
    count = min(_FIRST_FILES, files_at_once)
    while reads := list(islice(found, count)):
        count = min(2 * count, files_at_once)
        problems += [f"{read.file.path}: {read.problem}" for read in reads if read.problem]
        ledger.add(reads, rates)
    return problems


def price(ledger: Ledger, *, may_load: bool = True) -> int:
    """Price what is new, and all calls after the prices have changed; return how many wait.

    The price book is loaded only for models without known rates, and not unless `may_load`.
    """
    if ledger.has_unpriced() or ledger.get("prices") != prices_version():
        from detectors.agents.pricing import price_new

        return price_new(ledger, prices_version(), may_load=may_load)
    return 0


def prices_version() -> str:
    """Name the prices by the files that they are in, without reading them."""
    found = find_spec("genai_prices")
    package = Path(found.origin).parent if found and found.origin else Path()
    own = Path(__file__).parents[1] / "prices" / "data"
    files = [package / "data.py", *sorted(own.glob("*.toml"))]
    files.append(data_folder(os.environ, Path.home()) / "prices.json")
    stats = (file.stat() if file.exists() else None for file in files)
    return " ".join(f"{each.st_size}:{each.st_mtime_ns:x}" if each else "-" for each in stats)


def _read_all(files: Sequence[File], ledger: Ledger, processes: int | None) -> Iterator["FileRead"]:
    import msgspec

    from detectors.agents.files import Mark, read_file

    decode = msgspec.msgpack.Decoder(Mark).decode
    known = (ledger.find_mark(file.path) for file in files)
    marks = [Mark() if mark is None else decode(mark) for mark in known]
    size = sum(max(0, file.size - mark.offset) for file, mark in zip(files, marks, strict=True))
    processes = processes or min(os.cpu_count() or 1, _MOST_PROCESSES)
    if size < _PARALLEL_BYTES or len(files) == 1 or processes == 1:
        yield from map(read_file, files, marks)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_all_start_methods, get_context

    # The readers are imported already, so that a fork has them.
    method = "fork" if "fork" in get_all_start_methods() else "spawn"
    # What is read stays until it is sent, so there is no garbage to look for.
    with ProcessPoolExecutor(processes, get_context(method), initializer=gc.disable) as pool:
        yield from pool.map(read_file, files, marks, chunksize=4)
