"""Usage records of the second version, as the tests write them."""

from detectors.contract import UsageRecord


class Record(
    UsageRecord, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, gc=False
):
    """A record with the fields of the second version that the detectors and prices read."""

    service_tier: str | None = None
    cache_write_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    audio_prompt_tokens: int | None = None
    audio_completion_tokens: int | None = None
    image_prompt_tokens: int | None = None
    image_completion_tokens: int | None = None
    web_searches: int | None = None
    prefix_hash_16k: str | None = None
    prefix_hash_64k: str | None = None
    session_id: str | None = None
