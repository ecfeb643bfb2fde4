"""What limits how far a report's figures can be trusted, as warnings that say what to do."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from detectors.contract import DataQuality, MissingRate, Report
from detectors.wording.figures import (
    counted,
    day,
    months,
    number,
    percent,
    relative,
    usd,
    whole_usd,
)
from detectors.wording.labels import inert
from detectors.wording.projection import caution, is_monthly

_UNTAGGED_PCT: Final = 5.0
_HASHED_PCT: Final = 5.0
_USED_ONCE: Final = 20
_NAMED: Final = 3
_TIER: Final = "service_tier"  # the member with the name of an unknown one
_MOST_MISSING: Final = 10
_CHEAPER_TIERS: Final = ("batch", "flex")
_CONTEXT: Final = "search_context_size"  # likewise, of one that costs more
_REPORTED_PCT: Final = 2  # that a source's costs may differ from ours


def warnings(report: Report) -> list[str]:
    audit = report.audit
    found = [*_rows(report), caution(audit), *_prices(report)]
    if audit.outlier_calls:
        times = ", ".join(dict.fromkeys(day(each) for each in sorted(audit.outlier_times)))
        is_ = "is" if audit.outlier_calls == 1 else "are"
        found.append(
            f"{counted(audit.outlier_calls, 'call')} {is_} more than 30 days away from all others "
            f"({times}, UTC), counted in total spend only. Check the timestamps."
        )
    if report.data_quality is not None and (future := report.data_quality.future_calls):
        is_, them = ("is", "it") if future == 1 else ("are", "them")
        found.append(
            f"{counted(future, 'call')} {is_} dated more than a day in the future. Your account's "
            f"figures exclude {them} until then. Check the clock of the program that sent {them}."
        )
    if audit.echoes_dropped:
        repeat, are = ("row repeats", "is") if audit.echoes_dropped == 1 else ("rows repeat", "are")
        found.append(
            f"{number(audit.echoes_dropped)} {repeat} another in every field and {are} counted "
            "once. Check whether two programs log the same calls."
        )
    if audit.overfull_records:
        has = "has" if audit.overfull_records == 1 else "have"
        found.append(
            f"{counted(audit.overfull_records, 'call')} {has} more cached tokens than prompt "
            "tokens. Count cached tokens in prompt_tokens too."
        )
    if report.data_quality is not None and audit.records:
        if assumed := report.data_quality.assumed_input_calls:
            found.append(
                f"For {counted(assumed, 'call')}, we assumed whether the input tokens include the "
                "cached ones, because the source doesn't say. Compare the cost of these calls with "
                "your provider's invoice."
            )
        found.extend(_unknown(report.data_quality))
        found.extend(_missing_rates(report.data_quality))
        found.extend(_reported(report.data_quality))
        if audit.metered_calls:
            found.extend(_labels(report.data_quality))
    return [each for each in found if each]


def measures(report: Report) -> list[tuple[str, str]]:
    audit, quality = report.audit, report.data_quality
    included = audit.included_calls or 0
    found = [
        ("Observed", counted(audit.observed_days, "day")),
        ("Calls", number(audit.records)),
        *([("Calls included in a plan", number(included))] if included else []),
        ("Spent", usd(audit.total_spend_usd)),
        ("Valid rows", percent(audit.valid_pct)),
        ("Excluded rows", number(report.invalid_rows.count)),
        ("Duplicate rows, counted once", number(audit.echoes_dropped)),
    ]
    if audit.projection:
        kind = audit.projection if is_monthly(audit) else "not projected"
        found.append(("Projection", kind.capitalize()))
    if is_monthly(audit):
        found.append(("Monthly spend", whole_usd(audit.projected_spend_usd)))
    if quality is not None:
        found += [
            ("Tokens with a price", percent(quality.priced_tokens_pct)),
            ("List-price cost, not a bill", percent(quality.equiv_spend_pct)),
            ("Spend without a tag", percent(quality.untagged_spend_pct)),
            ("Calls with a prefix hash", percent(quality.hashed_calls_pct)),
            ("Routes used once", f"{number(quality.routes_used_once)} of {number(quality.routes)}"),
        ]
        if quality.assumed_input_calls:
            found.append(("Calls with assumed input tokens", number(quality.assumed_input_calls)))
        if quality.future_calls:
            found.append(("Calls dated in the future", number(quality.future_calls)))
        if costs := quality.reported_costs:
            found += [
                ("Cost that the source reports", usd(costs.reported_usd)),
                ("Cost of the same calls, computed", usd(costs.spend_usd)),
            ]
    return found


def _rows(report: Report) -> Iterator[str]:
    audit = report.audit
    rows, quality = report.invalid_rows, report.data_quality
    because = f" Most common reason: {rows.main_reason}." if rows.main_reason else ""
    if rows.count and audit.valid_pct < report.thresholds.warn_valid_pct:
        yield (
            f"Only {percent(audit.valid_pct)} of the rows could be read. The figures exclude the "
            f"others.{because}"
        )
    elif rows.count:
        are = "is" if rows.count == 1 else "are"
        yield f"{counted(rows.count, 'row')} could not be read and {are} excluded.{because}"
    if quality is not None and quality.skipped_rows:
        skipped = sum(each.rows for each in quality.skipped_rows)
        is_no = "is no call" if skipped == 1 else "are no calls"
        reasons = "; ".join(f"{number(each.rows)} {each.reason}" for each in quality.skipped_rows)
        yield f"{counted(skipped, 'row')} {is_no} to bill and not in any figure: {reasons}."


def _prices(report: Report) -> Iterator[str]:
    excluded = report.prices.excluded
    if excluded:
        is_, reason = "is" if len(excluded) == 1 else "are", inert(excluded[0])
        yield (
            f"{number(len(excluded))} of your prices {is_} excluded, because we couldn't apply "
            f"{'it' if len(excluded) == 1 else 'them'}. {reason[:1].upper()}{reason[1:]}. "
            "Correct your prices in the settings, then recalculate this report."
        )
    quality = report.data_quality
    # Calls of a plan are no part of the spend.
    is_value = bool(report.plan_usage and quality and not quality.equiv_spend_pct)
    if report.audit.equiv_spend and not is_value:
        yield equivalent_spend(report)
    if report.unpriced:
        yield unpriced(report)


def equivalent_spend(report: Report) -> str:
    """Say which part of the dollars is not a bill."""
    quality = report.data_quality
    share = percent(quality.equiv_spend_pct) if quality and quality.equiv_spend_pct else "Some"
    return (
        f"{share} of the spend is of calls on a flat-rate plan or through an unknown provider. "
        "These dollars are the list-price cost, not a bill."
    )


def unpriced(report: Report) -> str:
    """Say how much has no known price."""
    calls = sum(model.calls for model in report.unpriced) + report.other_unpriced.calls
    models = len(report.unpriced) + report.other_unpriced.count
    has, is_ = ("has", "is") if calls == 1 else ("have", "are")
    quality = report.data_quality
    known = ""
    if quality is not None:
        priced = percent(quality.priced_tokens_pct)
        priced = priced.replace("> ", "More than ").replace("< ", "Less than ")
        known = f" {priced} of tokens are priced."
    named = []
    for model in report.unpriced[:_NAMED]:
        hint = f"; did you mean {inert(model.suggestions[0].model)}?" if model.suggestions else ""
        seller = f"{inert(model.provider)}, {counted(model.calls, 'call')}{hint}"
        named.append(f"{inert(model.model)} ({seller})")
    if models > _NAMED:
        named.append(f"{models - _NAMED:,} more")
    return (
        f"{counted(calls, 'call')} to {counted(models, 'model')} {has} no known price and {is_} "
        f"excluded from dollar figures.{known} Add an alias or a rate for {', '.join(named)}."
    )


def _unknown(quality: DataQuality) -> Iterator[str]:
    fields = quality.unknown_fields or ()
    for field in fields[:_NAMED]:
        parent, _, value = field.name.partition(".")
        if parent == _TIER:
            named = f": {inert(value)}" if value else ""
            is_ = "is" if field.calls == 1 else "are"
            yield (
                f"{counted(field.calls, 'call')} {is_} at a tier that we don't know{named}. "
                f"{'It is' if field.calls == 1 else 'They are'} priced as standard, possibly too "
                "low."
            )
            continue
        has = "has" if field.calls == 1 else "have"
        if parent == _CONTEXT:
            size = f": {inert(value)}" if value else ""
            yield (
                f"{counted(field.calls, 'call')} {has} a larger search context than the default"
                f"{size}. We count the default's fee, so the cost may be too low."
            )
            continue
        named = (
            f"that we don't know: {inert(field.name)}" if field.name else "whose name we don't know"
        )
        # Lists and texts that are cut off have no number that is known.
        largest = f" (largest {number(field.largest)})" if field.largest else ""
        yield (
            f"{counted(field.calls, 'call')} {has} a usage field {named}{largest}."
            " Their cost may be too low."
        )
    if len(fields) > _NAMED:
        yield f"{number(len(fields) - _NAMED)} more usage fields are unknown to us."


def _missing_rates(quality: DataQuality) -> Iterator[str]:
    """Say which tiers, regions and units have no rate, and how their calls are priced instead."""
    groups: dict[tuple[str, str], list[MissingRate]] = {}
    for each in quality.missing_rates or ():
        groups.setdefault((each.kind, each.name), []).append(each)
    for own in list(groups.values())[:_MOST_MISSING]:
        kind, name = own[0].kind, inert(own[0].name)
        calls = sum(each.calls for each in own)
        has = "has" if calls == 1 else "have"
        when = months(min(each.first_call for each in own), max(each.last_call for each in own))
        is_part = name.endswith("_tokens")  # of the prompt or the answer
        where, instead = {
            "tier": (f"at tier {name}", "priced as standard"),
            "region": (f"in region {name}", "priced as in any other region"),
            "unit": (f"with {name}", "billed as other tokens" if is_part else "not billed"),
        }[kind]
        direction = "high" if kind == "tier" and name in _CHEAPER_TIERS else "low"
        sellers = list(
            dict.fromkeys(f"{inert(each.model)} ({inert(each.provider)})" for each in own)
        )
        models = ", ".join(sellers[:_NAMED])
        if len(sellers) > _NAMED:
            models += f" and {counted(len(sellers) - _NAMED, 'other model')}"
        likely = "possibly" if kind == "region" else "probably"
        yield (
            f"{counted(calls, 'call')} {where} {when} {has} no rate for it; {instead}, "
            f"{likely} too {direction}. Concerned: {models}."
        )
    if len(groups) > _MOST_MISSING:
        yield f"{number(len(groups) - _MOST_MISSING)} more tiers, regions or units have no rate."


def _reported(quality: DataQuality) -> Iterator[str]:
    """Compare what sources report with the dollars of the same calls."""
    costs = quality.reported_costs
    if not costs:
        return
    differing = [
        each
        for each in costs.models
        if abs(each.difference_usd) * 100 > each.reported_usd * _REPORTED_PCT
    ]
    apart = sum((abs(each.difference_usd) for each in costs.models), Decimal(0))
    if not differing or apart * 100 <= costs.reported_usd * _REPORTED_PCT:
        return
    is_router = all(each.provider == "openrouter" for each in costs.models)
    share = f" ({relative(costs.spend_usd, costs.reported_usd)})" if costs.reported_usd else ""
    named = []
    for each in differing[:_NAMED]:
        name, size = inert(each.model), abs(each.difference_usd)
        if not each.reported_usd:
            named.append(f"{name} has {usd(size)} more")
        else:
            part = percent(float(size / each.reported_usd * 100))
            lacks = each.difference_usd < 0
            named.append(f"{name} lacks {part}" if lacks else f"{name} has {part} more")
    if len(differing) > _NAMED:
        named.append(f"{counted(len(differing) - _NAMED, 'other model')} differ")
    source = "OpenRouter" if is_router else "The source"
    yield (
        f"{source} says {usd(costs.reported_usd)} where counts and prices give "
        f"{usd(costs.spend_usd)}{share}: {', '.join(named)}."
    )


def _labels(quality: DataQuality) -> Iterator[str]:
    if quality.untagged_spend_pct >= _UNTAGGED_PCT:
        yield (
            f"{percent(quality.untagged_spend_pct)} of your spend has no tag or endpoint, so its "
            "findings can't be separated. Send a tag with each call."
        )
    if quality.routes_used_once >= _USED_ONCE:
        yield (
            f"{number(quality.routes_used_once)} tags were used only once. Put request IDs in "
            "request_id, and name the feature or team in the tag."
        )
    if quality.hashed_calls_pct < _HASHED_PCT:
        none = "No calls have" if not quality.hashed_calls_pct else "Few calls have"
        yield (
            f"{none} a prefix hash, so we can't tell which prompts repeat. Send prefix_hash to "
            "find out what caching would save."
        )
