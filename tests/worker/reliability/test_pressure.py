"""With more clients than it can serve, the service responds with 503 quickly and breaks nothing."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import requests

from tests.worker.support.promises import Note, in_full_only, scaled
from tests.worker.support.system import System
from tests.worker.support.traffic import batch

LONGEST_SECONDS = 10.0
WAITING_CLIENTS = 8
FEWEST_CLIENTS = 30  # more than the threads that serve them
EXPECTED = {201, 429, 503}


@in_full_only
def test_it_answers_every_client_in_time(web_only: System, note: Note, share: float) -> None:
    """By default, the next test has clients that wait for the database."""
    clients = max(scaled(300, share), FEWEST_CLIENTS)
    ends_at = time.monotonic() + 60 * share
    body = batch(10)

    def send(client: int) -> list[tuple[int, float, bool]]:
        answers = []
        while time.monotonic() < ends_at:
            began = time.monotonic()
            try:
                response = web_only.post(body)
            except requests.RequestException:
                answers.append((0, time.monotonic() - began, False))
                continue
            is_clear = response.status_code == 201 or "Retry-After" in response.headers
            answers.append((response.status_code, time.monotonic() - began, is_clear))
        return answers

    with ThreadPoolExecutor(clients) as pool:
        answers = [one for given in pool.map(send, range(clients)) for one in given]
    statuses = Counter(status for status, _, _ in answers)
    # Other tests run beside the short one, in which only what gets no answer counts.
    slow = sum(seconds > LONGEST_SECONDS for _, seconds, _ in answers) if share == 1 else 0
    silent = sum(not is_clear for _, _, is_clear in answers)
    strange = sum(count for status, count in statuses.items() if status not in EXPECTED)
    assert statuses[201]
    note(f"19 back-pressure, {clients} clients", len(answers), slow + silent + strange)


def test_a_busy_database_is_503_with_retry_after(web_only: System) -> None:
    """Every ingest waits for a lock that is not given, and not for ever."""
    with web_only.engine.connect() as connection, connection.begin():
        connection.exec_driver_sql("LOCK TABLE audits IN ACCESS EXCLUSIVE MODE")
        with ThreadPoolExecutor(WAITING_CLIENTS) as pool:
            responses = list(pool.map(lambda _: web_only.post(batch(1)), range(WAITING_CLIENTS)))
    assert {response.status_code for response in responses} == {503}
    assert all("Retry-After" in response.headers for response in responses)
