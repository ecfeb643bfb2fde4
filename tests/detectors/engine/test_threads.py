"""Results come in order, and no more is begun than is wanted."""

from time import sleep

import pytest

from detectors.threads import in_turn


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
