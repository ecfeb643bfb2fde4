"""What is done in threads beside each other: the dataframe library lets go of the interpreter."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_turn(do: Callable[[Item], Result], items: Iterable[Item], at_once: int) -> Iterator[Result]:
    """Yield what is done with each item, in order; so many are done at once.

    Only one more waits, for the case that the first of them takes longest: what takes the results
    may end it all.
    """
    if at_once == 1:
        yield from map(do, items)
        return
    with ThreadPoolExecutor(at_once) as pool:
        running = deque[Future[Result]]()
        try:
            for item in items:
                running.append(pool.submit(do, item))
                if len(running) > at_once:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for each in running:
                each.cancel()


@contextmanager
def imported_meanwhile(*names: str) -> Iterator[None]:
    """Import modules in a thread while others compute; it ends with the block.

    This saves time only where they hardly hold the interpreter's lock, as the dataframe library.
    """

    def import_all() -> None:
        # The same error comes where the module is used.
        with suppress(Exception):
            for name in names:
                import_module(name)

    thread = Thread(target=import_all, name="imports")
    thread.start()
    try:
        yield
    finally:
        thread.join()
