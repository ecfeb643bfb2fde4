"""Whose log a file is, told by its beginning."""

import json
from typing import Any

from detectors.formats.detection import Format, detect
from detectors.formats.json_logs.anthropic import ANTHROPIC
from detectors.formats.json_logs.openai import OPENAI
from tests.cases import data_of, each_case

TABLES = data_of(__file__)

COUNTS = {"input_tokens": 1, "output_tokens": 2}


def detect_lines(*documents: Any) -> Format:
    return detect("\n".join(map(json.dumps, documents)).encode(), is_whole=True)


@each_case("document", TABLES["openai"])
def test_openai_style_is_recognized_by_its_counts_then_its_keys(document: Any) -> None:
    assert detect_lines(document) == Format("lines", OPENAI)


@each_case("document", TABLES["anthropic"])
def test_anthropic_style_is_recognized_by_its_counts_then_its_keys(document: Any) -> None:
    assert detect_lines(document) == Format("lines", ANTHROPIC)
    assert detect(json.dumps([document]).encode(), is_whole=True) == Format("array", ANTHROPIC)


def test_the_first_recognizable_line_decides() -> None:
    silent = {"usage": COUNTS}
    assert detect_lines(silent, silent, {"usage": {"inference_geo": "us"}}, {"object": "x"}) == (
        Format("lines", ANTHROPIC)
    )
    # Broken and incomplete lines are skipped.
    text = b'junk\n{"usage":\n5\n{"usage":{"prompt_tokens":1}}\n{"usage":{"speed":"fast"}}'
    assert detect(text, is_whole=False) == Format("lines", OPENAI)
    # A header is csv whatever its case.
    assert detect(b"\n TS , Model,x\n", is_whole=True) == Format("csv")
    assert detect(b'"ts","model"', is_whole=False) == Format("csv")
