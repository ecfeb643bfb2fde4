"""Loops: tasks and greenlets keep their tags apart, and none waits for a lock of ours."""

import sys

import pytest

from tests.client.collector import Collector
from tests.client.environments import run
from tests.client.programs import CALL, run_program, tags_of
from tests.client.provider_stub import ProviderStub
from tests.worker.support.promises import sampled

ASYNC = """
import asyncio
tallystick.init(exit_timeout=10)

async def ask_async(tag, client):
    with tallystick.tag(tag):
        await asyncio.sleep(0)
        await client.embeddings.create(model="text-embedding-3-small", input="x")

async def main():
    async with openai.AsyncOpenAI(
        api_key="k", base_url=os.environ["VENDORS"] + "/v1", max_retries=0
    ) as client:
        await asyncio.gather(*(ask_async(f"task {n}", client) for n in range(20)))
        await asyncio.to_thread(ask, "thread")

"""


@pytest.mark.parametrize("loop", sampled(["asyncio", "uvloop"], 2))
def test_a_loop_keeps_the_tags_of_its_tasks_apart(
    loop: str, collector: Collector, provider_stub: ProviderStub
) -> None:
    run_program(ASYNC + f"import {loop}\n{loop}.run(main())", collector, provider_stub)
    assert tags_of(collector) == {**{f"task {n}": 1 for n in range(20)}, "thread": 1}


GEVENT = """
import gevent
tallystick.init(exit_timeout=10)
jobs = [gevent.spawn(ask, f"greenlet {n}") for n in range(10)]
gevent.joinall(jobs, raise_error=True)
assert tallystick.flush(5)
gevent.spawn(ask, "last").join()
"""


@pytest.mark.parametrize("when", sampled(["after", "before"], 2))
def test_gevent_may_patch_before_or_after(
    when: str, collector: Collector, provider_stub: ProviderStub
) -> None:
    patch = "from gevent import monkey; monkey.patch_all()\n"
    program = patch + CALL + GEVENT if when == "before" else (
        "import tallystick; tallystick.init(exit_timeout=10)\n" + patch + CALL + GEVENT
    )  # fmt: skip
    run(sys.executable, "-c", program, SERVICE_DSN=collector.dsn, VENDORS=provider_stub.url)
    assert tags_of(collector) == {**{f"greenlet {n}": 1 for n in range(10)}, "last": 1}
