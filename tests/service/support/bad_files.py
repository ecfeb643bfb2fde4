"""Thirty files that no upload may accept, each with a canary and the allowed statuses."""

import gzip
import json
import random
import zlib
from io import BytesIO
from typing import Final
from zipfile import ZipFile

from tests.service.support.uploads import log_file, openai_line

CANARY: Final = "CANARYx7Qp"
SENTENCE: Final = f"please keep {CANARY} secret"
MIB: Final = 1 << 20


def _lines(*documents: object) -> bytes:
    return log_file(2) + b"".join(json.dumps(one).encode() + b"\n" for one in documents)


def _anthropic(**fields: object) -> dict[str, object]:
    usage = {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 0}
    at = "2026-01-01T00:00:00Z"
    return {"type": "message", "model": "claude-opus-4-8", "ts": at, "usage": usage, **fields}


def _csv(header: str, *rows: str) -> bytes:
    return "\n".join([header, *rows, ""]).encode()


def _zip(*logs: bytes) -> bytes:
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        for number, log in enumerate(logs):
            archive.writestr(f"{CANARY}-{number}.jsonl", log)
    return file.getvalue()


HEADER: Final = "ts,provider,model,prompt_tokens,completion_tokens"
ROW: Final = "2026-01-01,openai,gpt-5.4,1,2"

BAD_FILES: Final[dict[str, bytes]] = {
    "messages in OpenAI lines": _lines(openai_line(messages=[{"content": SENTENCE}])),
    "choices in OpenAI lines": _lines(openai_line(choices=[{"text": SENTENCE}])),
    "a prompt beside the usage": _lines(openai_line(prompt=SENTENCE)),
    "text within the usage": _lines(openai_line(usage={"prompt_tokens": 1, "note": SENTENCE})),
    "the output of the Responses API": _lines(openai_line(output=[{"content": SENTENCE}])),
    "messages in a wrapped request": _lines(
        {"request": {"messages": [SENTENCE]}, "response": openai_line()}
    ),
    "choices in a wrapped response": _lines({"response": openai_line(choices=[SENTENCE])}),
    "content in Anthropic lines": log_file(0)
    + b"".join(
        json.dumps(one).encode() + b"\n"
        for one in (_anthropic(), _anthropic(content=[{"text": SENTENCE}]))
    ),
    "a system prompt in Anthropic lines": json.dumps(_anthropic(system=SENTENCE)).encode(),
    "content in an array": json.dumps([openai_line(), openai_line(content=SENTENCE)]).encode(),
    "an array that breaks off": json.dumps([openai_line(), SENTENCE]).encode()[:-3],
    "text after an array": json.dumps([openai_line()]).encode() + SENTENCE.encode(),
    "a key in another case": _lines(openai_line(Model=SENTENCE)),
    "a key that is the text": _lines(openai_line(**{SENTENCE: 1})),
    "keys nested beyond reason": log_file() + b'{"a":' * 100_000 + CANARY.encode(),
    "a column of prompts": _csv(f"{HEADER},prompt", f"{ROW},{SENTENCE}"),
    "a column named by a text": _csv(f"{HEADER},{SENTENCE}", f"{ROW},1"),
    "a column without a name": _csv(f"{HEADER},", f"{ROW},{SENTENCE}"),
    "a CSV without a header": _csv(ROW, SENTENCE),
    "a CSV that lacks a column": _csv("ts,provider,model,tag", f"2026-01-01,openai,x,{CANARY}"),
    "a CSV that names a column twice": _csv(f"{HEADER},tag,TAG", f"{ROW},{CANARY},{CANARY}"),
    "a CSV with semicolons": _csv(
        f"{HEADER},prompt".replace(",", ";"), f"{ROW},{SENTENCE}".replace(",", ";")
    ),
    "a CSV of its header alone": _csv(HEADER),
    "nothing": b"",
    "blank lines": b"\n" * 1_000,
    "plain text": f"{SENTENCE}\n".encode() * 100,
    "HTML": f"<html><body>{SENTENCE}</body></html>".encode(),
    "UTF-16": _lines(openai_line(prompt=SENTENCE)).decode().encode("utf-16"),
    "binary": random.Random(7).randbytes(200_000) + CANARY.encode(),
    "an image": b"\x89PNG\r\n\x1a\n" + bytes(5_000) + CANARY.encode(),
    "a ZIP archive": b"PK\x03\x04" + bytes(26) + CANARY.encode(),
    "a stored ZIP of several logs": _zip(log_file(), log_file()),
    "an empty ZIP archive": _zip(),
    "an older Excel workbook": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\n" + log_file(),
    "a Parquet file": b"PAR1\n" + log_file(),
    "a 7z archive": b"7z\xbc\xaf\x27\x1c\n" + log_file(),
    "a line without an end": b'{"model":"' + CANARY.encode() + b"x" * (9 * MIB),
    "gzip that breaks off": gzip.compress(_lines(openai_line(tag=CANARY)) * 100)[:-20],
    "gzip that is broken": gzip.compress(log_file(2_000), 1)[:200] + CANARY.encode() * 20,
    "gzip within gzip": gzip.compress(gzip.compress(_lines(openai_line(tag=CANARY)))),
    "gzip of messages": gzip.compress(_lines(openai_line(messages=SENTENCE))),
}


def gzip_bomb(unpacked: int = 300 * MIB) -> bytes:
    """A log of blank lines that unpacks to a thousand times its size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    blank = b"\n" * MIB
    packed = packer.compress(log_file())
    packed += b"".join(packer.compress(blank) for _ in range(unpacked // MIB))
    return packed + packer.flush()
