"""Outputs of OpenAI's Batch API: a line per request, with the response under `response.body`.

Fields: https://platform.openai.com/docs/api-reference/batch/request-output. Azure's are the same.
Calls of a batch are priced at the tier `batch`. `custom_id` is the customer's own and never kept.
"""

from typing import Final

from detectors.formats.adapters.adapter import Adapter, Sums, any_of, members
from detectors.formats.adapters.exchanges import read_batch

ADAPTER: Final = Adapter(
    title="OpenAI batch outputs",
    signs=("custom_id",),
    recognizes=lambda row: "response" in row,
    read=lambda row, state: read_batch(row, row.inner("response", "body")),
    allowed=members(
        "id custom_id ts created provider endpoint request_id tag prefix_hash latency_ms "
        "declared_max_tokens environment response(status_code request_id "
        "body(id object model created created_at service_tier system_fingerprint status "
        "max_output_tokens usage*)) error(code)"
    ),
    # https://platform.openai.com/docs/api-reference/usage
    sums=Sums(
        what="a usage or cost report of OpenAI",
        signs=any_of("num_model_requests", "start_time results"),
        instead="send calls with the client, or log each response's usage, instead",
        is_report=True,
    ),
)
