"""Results of Anthropic's Message Batches API: a line per request, the message under `result`.

Fields: https://docs.anthropic.com/en/api/retrieving-message-batch-results. A result has no time of
its own: add `ts` to each line, for example the batch's `ended_at`. Calls of a batch are priced at
the tier `batch`. `custom_id` is the customer's own and never kept.
"""

from typing import Final

from detectors.formats.adapters.adapter import Adapter, Sums, any_of, members
from detectors.formats.adapters.exchanges import read_batch

ADAPTER: Final = Adapter(
    title="Anthropic batch results",
    signs=("result",),
    recognizes=lambda row: (
        "message" in row.inner("result") or ("custom_id" in row and "type" in row.inner("result"))
    ),
    read=lambda row, state: read_batch(row, row.inner("result", "message")),
    allowed=members(
        "custom_id ts created provider endpoint request_id tag prefix_hash latency_ms "
        "declared_max_tokens environment result(type message(id type role model stop_reason "
        "stop_sequence usage*) error(type error(type)))"
    ),
    # https://docs.anthropic.com/en/api/admin-api/usage-cost/get-messages-usage-report
    sums=Sums(
        what="a usage or cost report of Anthropic",
        signs=any_of("usage_date_utc", "starting_at results"),
        instead="send calls with the client, or log each response's usage, instead",
        is_report=True,
    ),
)
