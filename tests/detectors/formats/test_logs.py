"""Each log of `logs/` beside the records and invalid rows that it holds."""

from io import BytesIO
from pathlib import Path

import msgspec
import pytest

from detectors.contract import InvalidRow
from detectors.formats import Chunk, encode_chunk, read_chunks
from tests.cases import each_case
from tests.worker.support.promises import at_both_scales

LOGS = sorted(
    path for path in (Path(__file__).parent / "logs").iterdir() if ".expected" not in path.name
)


def canonical(log: bytes, chunk_bytes: int = 1 << 20) -> bytes:
    """What a log comes to: its records in the canonical form, then its invalid rows."""
    records, invalid = b"", list[InvalidRow]()
    for chunk in read_chunks(BytesIO(log), chunk_bytes=chunk_bytes):
        records += encode_chunk(Chunk(chunk.columns, []))
        invalid += chunk.invalid
    return records + msgspec.json.Encoder().encode_lines(invalid)


@each_case("path", LOGS)
def test_a_log_gives_its_expected_records(path: Path) -> None:
    expected = path.with_name(f"{path.stem}.expected.jsonl").read_bytes()
    assert canonical(path.read_bytes()).decode() == expected.decode()


@at_both_scales
@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_log_gives_the_same_records_wherever_it_is_split(path: Path, share: float) -> None:
    log = path.read_bytes()
    whole = canonical(log)
    for chunk_bytes in range(1, len(log) + 1, round(1 / share)):
        assert canonical(log, chunk_bytes) == whole, chunk_bytes
