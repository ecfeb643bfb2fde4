"""Calls by hour of day."""

from detectors.charts import calls_by_hour


def test_each_hour_has_a_bar_its_calls_and_its_share() -> None:
    chart = calls_by_hour([0] * 9 + [30, 10] + [0] * 13)
    assert chart.outline == "M9.12 0h.76v1000h-.76zM10.12 666.7h.76v333.3h-.76z"
    assert chart.amounts == ("30", "15", "0")
    assert chart.summary == "40 calls; peak: 30 from 09:00 to 10:00 UTC."
    assert [label for label in chart.labels if label] == ["00:00", "06:00", "12:00", "18:00"]
    nine = chart.hours[9]
    assert (nine.label, nine.calls, nine.share, nine.is_late) == ("09:00 to 10:00", 30, 75.0, False)
    assert chart.hours[23].label == "23:00 to 24:00"
    assert chart.hours[23].is_late


def test_an_axis_names_no_half_of_a_call() -> None:
    assert calls_by_hour([1] + [0] * 23).amounts == ("1", "", "0")
    assert calls_by_hour([0] * 24).outline == ""
