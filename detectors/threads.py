"""Work in a few threads: the dataframe library doesn't hold the interpreter's lock."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_turn(do: Callable[[Item], Result], items: Iterable[Item], at_once: int) -> Iterator[Result]:
    """Yield the result of each item in order, computing a few at once.

    One more item waits, so that a slow one doesn't leave a thread idle. No others are begun before
    their results are wanted: the caller may stop early.
    """
    if at_once == 1:
        yield from map(do, items)
        return
    with ThreadPoolExecutor(at_once) as pool:
        running = deque[Future[Result]]()
        for item in items:
            running.append(pool.submit(do, item))
            if len(running) > at_once:
                yield running.popleft().result()
        for each in running:
            yield each.result()
