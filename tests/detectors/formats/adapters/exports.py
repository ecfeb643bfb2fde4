"""Sixty odd exports as other tools write them, each with its calls or its one-sentence refusal."""

import gzip
import json
from typing import Final, NamedTuple

from tests.detectors.formats.adapters.source_rows import (
    BARE,
    BATCH,
    BEDROCK,
    CANARY,
    CHATS,
    CODEX,
    CODEX_2,
    FLASH,
    FORKED,
    GEMINI,
    GPT,
    HAIKU,
    HELICONE,
    LANGFUSE,
    LITELLM,
    OPENAI_LINE,
    OPENROUTER,
    OPUS,
    PORTKEY,
    POSTHOG,
    RESULT,
    ROLLOUT,
    ROUTED,
    SECOND,
    SESSION,
    SPEND_HEADER,
    SUMS,
    TEXT,
    Call,
    claude,
    codex,
    gemini_cli,
    lines,
    opencode,
    pretty,
    spend_row,
    table,
    tokens,
)


class Export(NamedTuple):
    """A file, and what an upload or an audit makes of it: calls, or a sentence with these words.

    `scrubbed` are the calls that `scrub` finds in a file that is refused because of its text.
    """

    file: bytes
    expected: list[Call] | str
    scrubbed: list[Call] | None = None


EXPORTS: Final[dict[str, Export]] = {
    # Gemini and Vertex AI
    "gemini": Export(lines(GEMINI), [FLASH]),
    "gemini, snake case": Export(
        lines({"ts": SECOND, "model_version": "gemini-2.5-flash", "usage_metadata": {
            "prompt_token_count": 100, "cached_content_token_count": 64,
            "candidates_token_count": 10, "thoughts_token_count": 20}}), [FLASH]),
    "gemini, tools are input": Export(
        lines(GEMINI | {"usageMetadata": {
            "promptTokenCount": 90, "toolUsePromptTokenCount": 10, "cachedContentTokenCount": 64,
            "candidatesTokenCount": 30}}), [FLASH]),
    "gemini, stream": Export(
        lines(*(GEMINI | {"responseId": "r", "usageMetadata": {
            "promptTokenCount": 100, "candidatesTokenCount": n}} for n in (1, 7, 30))),
        [("gemini-2.5-flash", 100, 30, 0, 0)]),
    "gemini, batch": Export(
        lines({"key": "k-1", "ts": SECOND, "response": {
            key: value for key, value in GEMINI.items() if key != "ts"}}), [(*FLASH, "batch")]),
    "vertex, batch": Export(
        lines({"status": "", "processed_time": "2026-09-21T18:13:16.826+00:00",
               "response": {key: value for key, value in GEMINI.items() if key != "ts"}}),
        [(*FLASH, "batch")]),
    "vertex, flex": Export(
        lines(GEMINI | {"usageMetadata":
                        GEMINI["usageMetadata"] | {"trafficType": "ON_DEMAND_FLEX"}}),
        [(*FLASH, "flex")]),
    "gemini with text": Export(
        lines(GEMINI | {"candidates": [{"content": {"parts": [{"text": CANARY}]}}]}), TEXT,
        [FLASH]),
    "gemini without a time": Export(
        lines({key: value for key, value in GEMINI.items() if key != "ts"}), "without a time"),
    "gemini, pretty": Export(pretty(GEMINI), [FLASH]),
    # Bedrock
    "bedrock": Export(lines(BEDROCK), [HAIKU]),
    "bedrock, gzip": Export(gzip.compress(lines(BEDROCK)), [HAIKU]),
    "bedrock, cut gzip": Export(gzip.compress(lines(BEDROCK) * 50)[:-20], "incomplete"),
    "bedrock, arn": Export(
        lines(BEDROCK | {"modelId": "arn:aws:bedrock:us-east-1:1:inference-profile/" + HAIKU[0]}),
        [HAIKU]),
    "bedrock, throttled": Export(
        lines(BEDROCK, BEDROCK | {"errorCode": "ThrottlingException", "requestId": "x"}), [HAIKU]),
    "bedrock in CloudWatch": Export(
        lines({"@timestamp": "2026-09-21 14:13:20.000", "@message": json.dumps(BEDROCK)}), [HAIKU]),
    "bedrock in CloudWatch, array": Export(
        json.dumps([{"timestamp": SECOND * 1_000, "message": json.dumps(BEDROCK)}]).encode(),
        [HAIKU]),
    "bedrock with text": Export(
        lines(BEDROCK | {"input": BEDROCK["input"] | {"inputBodyJson": {
            "messages": [{"role": "user", "content": [{"text": CANARY}]}]}}}), TEXT, [HAIKU]),
    # LiteLLM
    "litellm": Export(lines(LITELLM), [GPT]),
    "litellm, page": Export(json.dumps({"data": [LITELLM], "total": 1}).encode(), [GPT]),
    "litellm, pretty array": Export(pretty([LITELLM]), [GPT]),
    "litellm, csv": Export(
        table([SPEND_HEADER, spend_row("2026-09-21 14:13:20.250", "2026-09-21 14:13:21")]), [BARE]),
    "litellm, epoch seconds": Export(
        table([SPEND_HEADER, spend_row(SECOND + 0.25, SECOND + 1.5)]), [BARE]),
    "litellm, epoch milliseconds": Export(
        table([SPEND_HEADER, spend_row(SECOND * 1_000, SECOND * 1_000 + 1_500)]), [BARE]),
    "litellm, semicolons": Export(
        table([SPEND_HEADER, spend_row("2026-09-21T14:13:20+02:00", "")], ";"), [BARE]),
    "litellm, its own cache": Export(
        table([SPEND_HEADER, spend_row(SECOND, "", cache_hit="True")]), "answered from a gateway"),
    "litellm, failures": Export(lines(LITELLM, LITELLM | {"status": "failure"}), [GPT]),
    "litellm with text": Export(
        lines(LITELLM | {"messages": [{"role": "user", "content": CANARY}]}), TEXT, [GPT]),
    "litellm, a column of notes": Export(
        table([(*SPEND_HEADER, "notes"), (*spend_row(SECOND, ""), f'"{CANARY}"')]), TEXT, [BARE]),
    "litellm, several providers": Export(
        lines(LITELLM, LITELLM | {"request_id": "msg_1", "model": "anthropic/claude-opus-4-6",
                                  "custom_llm_provider": "anthropic", "metadata": {
            "usage_object": {"prompt_tokens": 40, "completion_tokens": 12, "prompt_tokens_details":
                             {"cached_tokens": 20}, "cache_creation_input_tokens": 15}}}),
        [GPT, OPUS]),
    "litellm by day": Export(
        lines({"date": "2026-09-01", "api_requests": 5, "prompt_tokens": 9, "spend": 1}), SUMS),
    # Langfuse
    "langfuse, cached beside": Export(lines(LANGFUSE), [GPT]),
    "langfuse, cached within": Export(
        lines(LANGFUSE | {"usageDetails": {"input": 40, "input_cached_tokens": 30, "output": 12,
                                           "total": 52}}), [GPT]),
    "langfuse, no total": Export(
        lines(LANGFUSE | {"model": "claude-opus-4-6", "usageDetails": {
            "input": 5, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 15,
            "output": 12}}), [OPUS]),
    "langfuse, snake case": Export(
        lines({"id": "x", "start_time": "2026-09-21 14:13:20", "model": "gpt-4o",
               "usage_details": LANGFUSE["usageDetails"]}), [GPT]),
    "langfuse, csv": Export(
        b"id,type,startTime,endTime,model,usageDetails\n"
        b'x,GENERATION,2026-09-21T14:13:20Z,,gpt-4o,"{""input"":10,""input_cached_tokens"":30,'
        b'""output"":12,""total"":52}"\n', [GPT]),
    "langfuse with text": Export(lines(LANGFUSE | {"input": CANARY}), TEXT, [GPT]),
    "langfuse by day": Export(
        json.dumps({"data": [{"date": "2026-09-01", "countObservations": 3, "countTraces": 1,
                              "usage": []}]}).encode(), SUMS),
    # OpenRouter
    "openrouter, generation": Export(json.dumps({"data": OPENROUTER}).encode(), [ROUTED]),
    "openrouter, generations": Export(lines(OPENROUTER), [ROUTED]),
    "openrouter, csv": Export(
        b"generation_id,created_at,tokens_prompt,tokens_completion,tokens_cached,model_permaslug\n"
        b"gen-1,2026-03-30 02:37:51.271,40,12,30,openai/gpt-4o\n", [ROUTED]),
    "openrouter by day": Export(
        json.dumps({"data": [{"date": "2026-08-24", "model": "openai/gpt-4.1", "requests": 5,
                              "model_permaslug": "openai/gpt-4.1-2025-04-14", "prompt_tokens": 50,
                              "completion_tokens": 125, "usage": 0.015}]}).encode(), SUMS),
    "openrouter by day, csv": Export(
        b"date,model,model_permaslug,requests,prompt_tokens,completion_tokens\n"
        b"2026-08-24,openai/gpt-4.1,openai/gpt-4.1-2025-04-14,5,50,125\n", SUMS),
    # Helicone, Portkey, PostHog
    "helicone": Export(lines(HELICONE), [GPT]),
    "helicone, anthropic": Export(
        lines(HELICONE | {"provider": "ANTHROPIC", "request_model": "claude-opus-4-6",
                          "prompt_tokens": 5, "prompt_cache_read_tokens": 20,
                          "prompt_cache_write_tokens": 15}), [OPUS]),
    "helicone, its own cache": Export(
        lines(HELICONE, HELICONE | {"cache_reference_id": SESSION, "request_id": "x"}), [GPT]),
    "helicone, csv": Export(
        b"response_id,response_created_at,response_status,request_created_at,request_body,model,"
        b"prompt_tokens,completion_tokens,latency,cost\n"
        b'"r-1","2026-09-21T14:13:21Z","200","2026-09-21T14:13:20Z","","gpt-4o","40","12","900",""\n',
        [BARE]),
    "helicone with text": Export(lines(HELICONE | {"request_body": {"prompt": CANARY}}), TEXT,
        [GPT]),
    "portkey": Export(lines(PORTKEY), [BARE]),
    "portkey, its own cache": Export(
        lines(PORTKEY, PORTKEY | {"id": "x", "cache_status": "SEMANTIC HIT"}), [BARE]),
    "portkey with text": Export(
        lines(PORTKEY | {"request": {"body": {"messages": [{"content": CANARY}]}}}), TEXT, [BARE]),
    "posthog": Export(lines(POSTHOG), [GPT]),
    "posthog, csv": Export(
        b"uuid,timestamp,properties.$ai_model,properties.$ai_input_tokens,"
        b"properties.$ai_output_tokens,properties.$ai_cache_read_input_tokens\n"
        b"x,2026-09-21T14:13:20Z,gpt-4o,40,12,30\n", [GPT]),
    "posthog, traces repeat": Export(
        lines(POSTHOG, POSTHOG | {"event": "$ai_trace", "uuid": "x"}), [GPT]),
    "posthog with text": Export(
        lines(POSTHOG | {"properties": POSTHOG["properties"] | {"$ai_input": CANARY}}), TEXT,
        [GPT]),
    # Agents
    "claude code, snapshots": Export(
        lines(*(claude(SESSION, "msg_1", n, 20 + n) for n in (1, 5, 12))), [OPUS]),
    "claude code, forked": Export(
        lines(claude(SESSION, "msg_1"), claude(FORKED, "msg_1"), claude(FORKED, "msg_2")),
        [OPUS, OPUS]),
    "claude code with text": Export(
        lines({"type": "summary", "summary": CANARY, "leafUuid": SESSION},
              claude(SESSION, "msg_1")),
        TEXT, [OPUS]),
    "codex": Export(lines(*ROLLOUT), [CODEX, CODEX_2]),
    "codex, events twice": Export(lines(*ROLLOUT, tokens(26, 90, 50)), [CODEX, CODEX_2]),
    "codex, totals only": Export(
        lines(*ROLLOUT[:2], codex("event_msg", 21, type="token_count", info={"total_token_usage": {
            "input_tokens": 40, "cached_input_tokens": 30, "output_tokens": 12}}),
              codex("event_msg", 25, type="token_count", info={"total_token_usage": {
                  "input_tokens": 90, "cached_input_tokens": 60, "output_tokens": 24}})),
        [CODEX, CODEX_2]),
    "codex, forked": Export(
        lines(*ROLLOUT, codex("session_meta", 40, id=FORKED, forked_from_id=SESSION), *ROLLOUT,
              tokens(45, 140, 50)), [CODEX, CODEX_2, CODEX_2]),
    "codex, cut": Export(lines(*ROLLOUT)[:-40], [CODEX]),
    "codex with text": Export(
        lines(*ROLLOUT[:2], codex("response_item", type="message", content=CANARY), *ROLLOUT[2:]),
        TEXT, [CODEX, CODEX_2]),
    "gemini cli": Export(pretty(CHATS), [FLASH]),
    "gemini cli, lines, resumed": Export(
        lines({key: CHATS[key] for key in ("sessionId", "projectHash")}, gemini_cli("m1"),
              gemini_cli("m1"), {"$rewindTo": "m1"}, gemini_cli("m2")), [FLASH, FLASH]),
    "opencode, forked": Export(
        lines(opencode("msg_1", "ses_1"), opencode("msg_7", "ses_2"),
              opencode("msg_8", "ses_2", SECOND * 1_000 + 9_000)), [OPUS, OPUS]),
    # Batches
    "openai batch": Export(lines(BATCH), [(*GPT, "batch")]),
    "openai batch, failures": Export(
        lines(BATCH, BATCH | {"response": None, "error": {"code": "batch_expired"}}),
        [(*GPT, "batch")]),
    "anthropic batch": Export(lines(RESULT), [(*OPUS, "batch")]),
    "anthropic batch without times": Export(
        lines({key: value for key, value in RESULT.items() if key != "ts"}), "without a time"),
    # Files that are not one thing
    "two sources in one file": Export(
        lines(LITELLM | {"id": "chatcmpl-2"}, BATCH), [GPT, (*GPT, "batch")]),
    "a source and our own lines": Export(lines(LITELLM, OPENAI_LINE), "use a file for each",
        [GPT, BARE]),
    "a cut array": Export(json.dumps([LITELLM, LITELLM]).encode()[:-9], "array is incomplete"),
    "a cut object": Export(pretty(CHATS)[:-9], "isn't complete JSON"),
    "an unknown object": Export(pretty({"weather": "sunny"}), "don't recognize"),
    "openai usage by day": Export(
        pretty({"object": "page", "data": [{"object": "bucket", "start_time": SECOND, "results": [
            {"object": "organization.usage.completions.result", "num_model_requests": 5}]}]}),
        SUMS),
    "openai usage by day, csv": Export(
        b"start_time,model,input_tokens,output_tokens,num_model_requests\n1,gpt-4o,1,1,1\n", SUMS),
    "anthropic usage by day": Export(
        json.dumps({"data": [{"starting_at": "2026-08-01T00:00:00Z", "ending_at": "x",
                              "results": [{"output_tokens": 5}]}]}).encode(), SUMS),
    "anthropic usage by day, csv": Export(
        b"usage_date_utc,model_version,usage_output_tokens\n2026-08-01,opus,5\n", SUMS),
}  # fmt: skip
