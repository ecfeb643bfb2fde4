"""Types of messages are prepared while one thread imports.

msgspec 0.22 prepares a type when it is first decoded or converted to. If two threads do that at
once, one of them reads what the other hasn't finished, and Python ends with a segmentation fault: a
web process that starts under traffic did.
"""

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A program of one thread, and `Report.from_json`: both classes of reports are prepared below them.
PREPARED = {
    "service/web/server/large_tables.py": "tuple[Config, SpendTable | FindingTable]",
    "detectors/contract/report.py": "cls",
}
READ_AT_ONCE = """
import sys, threading
from detectors import Report
from service.reports.documents import read_listed
from service.reports.sample import get_sample_report

document = get_sample_report()
sys.setswitchinterval(1e-6)
gate = threading.Barrier(16)

def read(number):
    gate.wait()
    (Report.from_json if number % 2 else read_listed)(document)

threads = [threading.Thread(target=read, args=(number,)) for number in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_no_struct_is_decoded_without_a_decoder_of_its_module() -> None:
    found = {
        (str(path.relative_to(ROOT)), shape)
        for room in ("service", "detectors")
        for path in (ROOT / room).rglob("*.py")
        for shape in _decoded_types(ast.parse(path.read_text()))
    }
    assert found == set(PREPARED.items())


def _decoded_types(module: ast.Module) -> list[str]:
    """Return the types of `decode(…, type=…)` that aren't made of Python's own."""
    calls = (node for node in ast.walk(module) if isinstance(node, ast.Call))
    shapes = [
        ast.unparse(keyword.value)
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "decode"
        for keyword in call.keywords
        if keyword.arg == "type"
    ]
    return [shape for shape in shapes if not shape.startswith(("dict[str, ", "Mapping[str, "))]


def test_threads_may_be_the_first_to_read_a_report() -> None:
    command = [sys.executable, "-c", READ_AT_ONCE]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert finished.returncode == 0, finished.stderr[-500:]
