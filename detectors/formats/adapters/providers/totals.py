"""Bills and totals of sources without an adapter: they have no calls."""

from typing import Final

from detectors.formats.adapters.adapter import Sums, any_of

_CALLS: Final = "send calls with the client, or log each response's usage, instead"
OTHER_SUMS: Final = (
    # https://platform.openai.com/docs/api-reference/usage/costs
    Sums(
        what="OpenAI's costs by day",
        signs=any_of(
            "amount_value line_item", "amount line_item start_time", "start_time amount_value"
        ),
        instead=_CALLS,
        is_report=True,
    ),
    # https://focus.finops.org/focus-specification
    Sums(
        what="a cost export in FOCUS form",
        signs=any_of("BilledCost ChargePeriodStart"),
        instead=_CALLS,
        is_report=True,
    ),
    # https://docs.github.com/en/billing/reference/billing-reports
    Sums(
        what="a usage report of GitHub",
        signs=any_of(
            "applied_cost_per_quantity quantity",
            "gross_amount net_amount unit_type",
            "grossAmount netAmount unitType",
        ),
        instead="read the sessions of your coding agents with `tallystick scrub` instead",
        is_report=True,
    ),
    # https://docs.aws.amazon.com/cur/latest/userguide/data-dictionary.html
    Sums(
        what="a cost and usage report of AWS",
        signs=any_of("lineItem/UsageAmount", "line_item_usage_type", "lineItem/UsageType"),
        instead="turn on model invocation logging of Bedrock and read its logs instead",
        is_report=True,
    ),
    # https://learn.microsoft.com/azure/cost-management-billing/automate/understand-usage-details-fields
    Sums(
        what="a cost export of Azure",
        signs=any_of("MeterCategory Quantity", "meterCategory quantity", "meterName quantity"),
        instead=_CALLS,
    ),
    # https://cloud.google.com/billing/docs/how-to/export-data-bigquery-tables/standard-usage
    Sums(
        what="a billing export of Google Cloud",
        signs=any_of("billing_account_id sku", "sku.description usage.amount"),
        instead=_CALLS,
    ),
    # https://ccusage.com/guide/json-output
    Sums(
        what="ccusage's totals",
        signs=any_of("totalCost modelsUsed", "totalCost modelBreakdowns", "daily totals"),
        instead="read the sessions themselves with `tallystick scrub` instead",
    ),
    # https://docs.github.com/en/copilot/how-tos/copilot-cli
    Sums(
        what="the total of a Copilot CLI session",
        signs=any_of("modelMetrics totalPremiumRequests"),
        instead="Copilot CLI logs no counts of single calls",
        within="data",
    ),
    # https://docs.claude.com/en/docs/claude-code/headless
    Sums(
        what="the total of a run of Claude Code",
        signs=any_of("total_cost_usd num_turns", "total_cost_usd modelUsage"),
        instead="read the sessions in ~/.claude/projects with `tallystick scrub` instead",
    ),
    # https://github.com/block/goose/blob/main/crates/goose/src/session/session_manager.rs
    Sums(
        what="the total of goose's sessions",
        signs=any_of("accumulated_input_tokens accumulated_output_tokens"),
        instead=_CALLS,
    ),
    # https://github.com/charmbracelet/crush/blob/main/internal/db/models.go
    Sums(
        what="the total of Crush's sessions",
        signs=any_of("message_count prompt_tokens completion_tokens cost"),
        instead=_CALLS,
    ),
    Sums(
        what="a table of totals by period",
        signs=any_of(
            *(
                f"{requests} {tokens}"
                for requests in ("requests", "num_requests", "request_count", "requestCount")
                for tokens in ("input_tokens", "prompt_tokens", "inputTokens", "total_tokens")
            )
        ),
        instead="export single calls instead",
    ),
)
