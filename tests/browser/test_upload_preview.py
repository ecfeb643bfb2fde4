"""The upload page before anything is sent: what a file holds, and what its columns are."""

import re
from contextlib import suppress
from io import BytesIO
from typing import Final
from zipfile import ZipFile

import pytest
import zstandard
from playwright.sync_api import Page, expect

import detectors
from detectors.errors import DetectorError
from detectors.formats import read_chunks
from tests.browser.chromium import LOOKS, ROOT
from tests.browser.measures import axe_violations, overflow
from tests.browser.pages import named
from tests.browser.windows import Windows
from tests.detectors.scrub.test_every_door import samples

SAMPLE: Final = ROOT / "examples" / "sample-usage.jsonl"
FOREIGN: Final = (
    b"Created At,model_name,input_tokens,output_tokens,cost,prompt\n"
    b'2026-11-02T09:15:00Z,gpt-4o-mini,1200,85,0.12,"Where, she asked, is the anchor?"\n'
    b"2026-11-03T09:15:00Z,gpt-4o-mini,1000,15,0.10,And the line?\n"
)
ADAPTERS: Final = ROOT / "detectors" / "formats" / "adapters"
EXPORT: Final = ADAPTERS / "gateways" / "openrouter" / "sample.csv"
SESSION: Final = ADAPTERS / "agents" / "gemini_cli" / "sample.json"
TEXT: Final = b'{"model":"gpt-4o","usage":{"prompt_tokens":1},"choices":[{"index":0}]}\n'
COUNTS: Final = b'{"schemaType":"ModelInvocationLog","input":{"inputTokenCount":35}}\n'
TOTALS: Final = (
    b"date,model,model_permaslug,requests,prompt_tokens,completion_tokens\n"
    b"2026-08-24,openai/gpt-4.1,openai/gpt-4.1-2025-04-14,5,50,125\n"
)
DIGEST: Final = b"date,requests,prompt_tokens,completion_tokens\n2026-08-24,5,50,125\n"
# One object over several lines, and what the preview says of it.
OBJECTS: Final = {
    SESSION.read_bytes(): "Object 1 contains text in “content”",
    SESSION.read_bytes()[:-9]: "it isn't complete JSON: export it again",
    re.sub(rb',?\s*"(content|subject|description)": "[^"]*"', b"", SESSION.read_bytes()): (
        "We read this tool's exports."
    ),
    b'{\n "data": [{"generation_id": "g", "tokens_prompt": 1}]}': "We read this tool's exports.",
    b'{\n "weather": "sunny"\n}': "We don't recognize this format.",
}
# The provider and the model have names that every object of JavaScript inherits.
INHERITED: Final = (
    b'{"ts": 1790000000, "provider": "constructor", "model": "toString", '
    b'"usage": {"prompt_tokens": 1, "completion_tokens": 1}}\n'
)
# The account of these tests keeps its credits and its list of files.
_KEEP: Final = "() => { XMLHttpRequest.prototype.send = (body) => { window.kept = body; }; }"


def choose(page: Page, content: bytes, name: str = "export.csv") -> None:
    page.get_by_label("Log file").set_input_files(
        {"name": name, "mimeType": "text/csv", "buffer": content}
    )
    expect(page.locator("#preview")).to_contain_text(f"{name}, ")


def figure(page: Page, name: str) -> str:
    return page.locator(f"[data-figure={name}] dd").first.inner_text()


def test_the_figures_are_those_of_an_audit(windows: Windows) -> None:
    page = windows.show(named("upload")).page
    page.get_by_label("Log file").set_input_files(SAMPLE)
    expect(page.locator("#figures")).to_be_visible()
    calls = detectors.read(SAMPLE).frame.unique().select("prompt_tokens", "completion_tokens")
    assert figure(page, "calls") == f"{calls.height:,}"
    assert figure(page, "tokens") == f"{sum(calls.sum().row(0)):,}"
    assert figure(page, "period") == "Oct 5, 2026 to Oct 18, 2026"
    assert figure(page, "format") == "OpenAI-style JSON Lines"


def test_a_foreign_csv_is_sent_once_every_column_is_a_field_or_dropped(windows: Windows) -> None:
    window = windows.show(named("upload"))
    page = window.page
    button, preview = page.get_by_role("button", name="Upload and audit"), page.locator("#preview")
    reason = page.locator("#why-off")
    choose(page, TEXT, "raw.jsonl")
    expect(reason).to_be_empty()  # said once, above
    expect(preview).to_contain_text("Line 1 contains text in “choices”")
    expect(preview).to_contain_text("tallystick scrub")
    expect(button).to_be_disabled()
    choose(page, TEXT.replace(b"choices", b"metadata"), "more.jsonl")
    expect(preview).to_contain_text("Line 1 has a field that we don't accept: “metadata”")
    expect(button).to_be_disabled()
    choose(page, EXPORT.read_bytes(), "openrouter.csv")
    expect(preview).to_contain_text("We read this tool's exports.")
    choose(page, COUNTS, "invocations.jsonl")
    expect(preview).to_contain_text("invocations.jsonl, 67 bytes. We read this tool's exports.")
    expect(button).to_be_enabled()
    for content, words in OBJECTS.items():
        choose(page, content, "session.json")
        expect(preview).to_contain_text(words)
    choose(page, TOTALS, "daily.csv")
    expect(preview).to_contain_text("This is OpenRouter's daily activity: totals, which we compare")
    expect(page.locator("#mapping")).to_be_hidden()
    report = page.get_by_role("button", name="Upload report")
    expect(report).to_be_enabled()
    with page.expect_request("**/upload?kind=report") as sent:
        report.click()
    assert sent.value.method == "POST"
    expect(page.get_by_role("alert")).to_contain_text("isn't a report that we know")  # has no cost
    page.go_back()
    choose(page, DIGEST, "daily.csv")
    expect(preview).to_contain_text("with totals instead of calls")
    expect(button).to_be_disabled()
    choose(page, INHERITED, "names.jsonl")
    assert (figure(page, "calls"), figure(page, "tokens")) == ("1", "2")
    choose(page, FOREIGN)
    expect(preview).to_contain_text("export.csv, 202 bytes. Match its columns below.")
    expect(reason).to_contain_text("drop them: “prompt”.")
    expect(button).to_be_disabled()
    expect(page.get_by_label("Created At")).to_have_value("#1=ts")
    expect(page.locator("#mapping")).to_contain_text("text, 32 characters")
    assert window.take_complaints() == []
    for look in LOOKS[:2]:  # both widths, both schemes
        window.look(*look)
        assert [*axe_violations(window), *overflow(window)] == [], look
    page.get_by_label("prompt").select_option("Tag: service, team or feature")
    expect(page.get_by_label("cost")).to_have_value("#5=")  # proposed to be dropped
    expect(reason).to_contain_text("The column “prompt” holds text")
    page.get_by_label("prompt").select_option("Drop this column")
    expect(reason).to_contain_text("Choose the provider of every call")
    page.get_by_label("Model provider of every call").select_option("OpenAI")
    expect(button).to_be_enabled()
    assert (figure(page, "calls"), figure(page, "tokens")) == ("2", "2,300")
    page.evaluate(_KEEP)
    button.click()
    mapped = ["#1=ts", "#2=model", "#3=prompt_tokens", "#4=completion_tokens", "#5=", "#6="]
    assert page.evaluate("() => window.kept.getAll('map')") == mapped
    assert page.evaluate("() => window.kept.get('provider')") == "openai"


def test_archives_that_only_the_service_unpacks_can_be_sent(windows: Windows) -> None:
    page = windows.show(named("upload")).page
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        archive.writestr("log.jsonl", SAMPLE.read_bytes())
    for content in (zstandard.compress(SAMPLE.read_bytes()), packed.getvalue()):
        assert list(read_chunks(BytesIO(content)))
        choose(page, content, "log.packed")
        expect(page.locator("#preview")).to_contain_text("We check it after the upload.")
        expect(page.get_by_role("button", name="Upload and audit")).to_be_enabled()


@pytest.mark.stress
def test_the_preview_lets_every_sample_pass_that_an_upload_reads(windows: Windows) -> None:
    page = windows.show(named("upload")).page
    button = page.get_by_role("button", name="Upload and audit")
    wrong = []
    for name, content in samples().items():
        with suppress(DetectorError):
            if list(read_chunks(BytesIO(content))):
                choose(page, content, "log.jsonl")
                if button.is_disabled():
                    wrong.append((name, page.locator("#preview").inner_text()))
    assert wrong == []
