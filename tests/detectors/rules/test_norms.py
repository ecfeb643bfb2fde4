"""The bins of answers, whose prompts are compared."""

import polars as pl

from detectors.rules.norms import bin_of


def test_the_bin_of_an_answer_is_the_power_of_two_below_its_length() -> None:
    near = [2**power + step for power in range(41) for step in (-1, 0, 1)]
    calls = pl.LazyFrame({"completion_tokens": near}, {"completion_tokens": pl.Int64})
    found = calls.select(bin_of(calls)).collect().to_series().to_list()
    assert found == [max(tokens, 1).bit_length() - 1 for tokens in near]
