"""A program with the client on, stub providers, and the real service: the waste, to the cent."""

import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage, calc_price

from tests.client import provider_stub
from tests.client.environments import run
from tests.client.provider_stub import ProviderStub
from tests.worker.support.system import System

TICKETS = 40
TICKET = {"prompt_tokens": 90_000, "completion_tokens": 100, "total_tokens": 90_100}
SUMMARY = {"input_tokens": 50_000, "output_tokens": 900}
CENT = Decimal("0.01")


def _price(provider: str, model: str, prompt: int, completion: int) -> Decimal:
    usage = Usage(input_tokens=prompt, output_tokens=completion)
    return calc_price(usage, model, provider_id=provider).total_price


@pytest.fixture
def stub() -> Any:
    with ProviderStub() as stub:
        completion = {**provider_stub.completion(), "model": "gpt-5-2025-08-07", "usage": TICKET}
        stub.instead = {
            "/chat/completions": completion,
            "/messages": {**provider_stub.message(), "usage": SUMMARY},
        }
        yield stub


@pytest.mark.stress
def test_the_report_shows_what_the_program_wasted(system: System, stub: ProviderStub) -> None:
    """By default, `test_client_live.py` and the tests of the findings show it in two parts."""
    key = f"ik_{system.key.partition('_')[2]}"
    run(
        sys.executable,
        str(Path("examples") / "captured_app.py"),
        SERVICE_DSN=system.base_url.replace("http://", f"http://{key}@"),
        OPENAI_BASE_URL=f"{stub.url}/v1",
        ANTHROPIC_BASE_URL=stub.url,
        OPENAI_API_KEY="k",
        ANTHROPIC_API_KEY="k",
    )
    (audit_id,) = [row[0] for row in system.rows("SELECT id FROM audits")]
    system.wait_done([audit_id], 60)
    ((stored,),) = system.rows("SELECT document FROM reports")
    document = json.loads(bytes(stored))
    audit = system.audit(audit_id)
    assert audit.records == TICKETS + 1
    spent = TICKETS * _price("openai", "gpt-5", 90_000, 100)
    summary = _price("anthropic", "claude-sonnet-4-6", 50_000, 900)
    assert _cents(document["audit"]["total_spend_usd"]) == (spent + summary).quantize(CENT)
    saved = spent - TICKETS * _price("openai", "gpt-5-mini", 90_000, 100)
    overkill = [one for one in document["findings"] if one["detector"] == "d1_model_overkill"]
    (finding,) = overkill
    assert "sort-tickets" in finding["route"]
    # A run of seconds is too short to project monthly figures.
    assert document["audit"]["projection"] == "none"
    assert _cents(finding["monthly_cost_impact_usd"]) == saved.quantize(CENT)


def _cents(dollars: float) -> Decimal:
    return Decimal(str(dollars)).quantize(CENT)
