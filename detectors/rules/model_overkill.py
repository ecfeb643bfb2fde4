"""Short answers from a flagship model.

Costs you
---------
A flagship's rates on calls whose answers are too short to need one: labels, yes or no, a date
taken out of a text. The model one tier down usually costs a fifth to a half.

Fires on
--------
A route's calls to one model, at least 5, with a cheaper sibling at the same provider, whose median
answer has at most 150 tokens and whose 90th percentile at most 400. Each call with an answer of at
most 400 tokens counts with what it would have cost less at the sibling's rates that day, its cache
use as it was.

Stays quiet on
--------------
Routes with long answers, models at the foot of their vendor's ladder, and days on which the
sibling was not cheaper for both input and output. It cannot see how hard a short answer was.

Do instead
----------
Try the sibling on your own quality evaluation of the route; switch where it holds.

Sources
-------
The vendors' own line-ups, as cited in `detectors/prices/ladder.toml`.
"""

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls
from detectors.rules.detector import (
    ESTIMATED,
    MARGIN,
    QUANTILE_MARGIN,
    Detector,
    Facts,
    Kind,
    flag,
)
from detectors.wording.figures import rate


def find(calls: Calls, thresholds: Thresholds) -> Calls:
    completion = nw.col("completion_tokens")
    short_groups = (
        calls.group_by("group")
        .agg(
            nw.len().alias("calls"),
            completion.median().alias("median"),
            completion.quantile(0.9, "linear").alias("p90"),
        )
        .filter(
            nw.col("calls") >= thresholds.d1_min_calls,
            nw.col("median") <= thresholds.d1_median_completion_tokens + QUANTILE_MARGIN,
            nw.col("p90") <= thresholds.d1_p90_completion_tokens + QUANTILE_MARGIN,
        )
    )
    short_calls = calls.filter(
        completion <= thresholds.d1_max_completion_tokens, nw.col("sibling_saving_usd") > MARGIN
    )
    flagged = short_calls.join(short_groups, on="group", how="semi")
    return flag(flagged, 0, nw.col("sibling_saving_usd"))


def advise(facts: Facts) -> str:
    return (
        f"Try {facts.sibling} instead of {facts.model} on {facts.route}: {facts.calls:,} of its "
        f"{facts.group_calls:,} calls got short answers (median "
        f"{facts.median_completion_tokens:,.0f} tokens). A million tokens cost "
        f"{rate(facts.input_usd_per_mtok)} in and {rate(facts.output_usd_per_mtok)} out now, "
        f"{rate(facts.sibling_input_usd_per_mtok)} and {rate(facts.sibling_output_usd_per_mtok)} "
        f"at {facts.sibling}. Token counts cannot tell whether its answers are good enough: your "
        "own quality evaluation decides."
    )


DETECTOR = Detector(id="d1_model_overkill", kinds=(Kind("", ESTIMATED),), find=find, advise=advise)
