"""Programs of users, started as their users start them, beside a stub provider and a collector."""

import sys
from collections import Counter

from tests.client.collector import Collector
from tests.client.environments import run
from tests.client.provider_stub import ProviderStub

CALL = """
import os, sys, time
import tallystick
import openai

def client(url=os.environ.get("VENDORS")):
    return openai.OpenAI(api_key="k", base_url=url + "/v1", max_retries=0)

def ask(tag, client=client):
    with tallystick.tag(tag):
        client().embeddings.create(model="text-embedding-3-small", input="x")
"""


def run_program(program: str, collector: Collector, provider_stub: ProviderStub) -> str:
    """What it prints; it has `ask(tag)` to make a call with."""
    environment = {"SERVICE_DSN": collector.dsn, "VENDORS": provider_stub.url}
    return run(sys.executable, "-c", CALL + program, **environment)


def tags_of(collector: Collector) -> Counter[str]:
    """How many records came with each tag, all of which the service would have taken."""
    assert collector.problems == []
    return Counter(record["tag"] for record in collector.records)
