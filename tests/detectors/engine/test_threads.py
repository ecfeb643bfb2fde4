"""What is done in threads: in order, no more than wanted, and without what fails in another."""

import sys
import threading
from time import sleep

import pytest

from detectors.threads import imported_meanwhile, in_turn


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_results_are_in_order_and_no_more_is_begun_than_at_once_and_one(at_once: int) -> None:
    begun = list[int]()

    def do(number: int) -> int:
        begun.append(number)
        sleep(0.01 if number % 2 else 0.001)
        return number * number

    squares = in_turn(do, range(20), at_once)
    for number in range(8):
        assert next(squares) == number * number
        assert len(begun) <= number + 1 + at_once
    del squares  # what receives the results ends it
    assert max(begun) <= 8 + at_once
    assert list(in_turn(do, range(0), at_once)) == []


def test_an_error_comes_where_its_result_would_and_ends_all() -> None:
    def do(number: int) -> int:
        return 10 // (3 - number)

    results = in_turn(do, range(100), 2)
    assert [next(results) for _ in range(3)] == [3, 5, 10]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert list(results) == []


def test_a_module_that_fails_in_the_thread_is_left_to_who_uses_it() -> None:
    before = threading.active_count()
    with imported_meanwhile("detectors.cli.terminal", "detectors.no_such_module", "antigravity"):
        pass
    assert threading.active_count() == before
    assert "detectors.cli.terminal" in sys.modules
    assert "antigravity" not in sys.modules
