"""Reads lines of one form together, several times faster than the contract's exact reader.

It reads valid lines only, and gives the same calls. Where anything is unusual it reads nothing, and
the exact reader decides. See docs/decisions/detectors/57-lines-of-one-form.md.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import polars as pl

from detectors.engine import categorize
from detectors.formats.json_logs.dialect import Dialect
from detectors.formats.json_logs.openai import OPENAI
from detectors.frames.uniform.calls import make_calls
from detectors.frames.uniform.columns import SEPARATORS, Separators, TakenColumns, take
from detectors.frames.uniform.form import Document, Key, NoFormError, find_form, values_of

_SAMPLES: Final = 40  # lines that show the form, the first of them from the start
_FIRST_SAMPLES: Final = 20
_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Form(msgspec.Struct, frozen=True):
    """A form, and the objects that showed it."""

    separators: Separators
    samples: tuple[Document, ...] = ()
    keys: tuple[Key, ...] = ()

    def with_samples(self, samples: Iterable[Document]) -> "_Form":
        samples = (*self.samples, *samples)
        return _Form(self.separators, samples, find_form(samples, OPENAI.flat.shape))

    def take(self, text: bytes) -> TakenColumns:
        return take(text, self.keys, self.separators)


class UniformReader:
    """Reads parts of one log. The form that one part shows is tried first for the next ones.

    Threads may share a reader.
    """

    def __init__(self) -> None:
        self._form: _Form | None = None

    def read(
        self, text: bytes, dialect: Dialect, *, has_categories: bool = False
    ) -> pl.DataFrame | None:
        """Return the calls of these lines, as `CALLS`; None if the exact reader must read them.

        With `has_categories`, labels that repeat or that no line has are categories.
        """
        # With escapes, a text could hold quotes and control characters.
        if dialect is not OPENAI or b"\\" in text:
            return None
        try:
            known = self._form
            form = known or _find_form(text)
            values, is_of_form = form.take(text)
            if known and is_of_form.sum() < len(is_of_form) // 2:
                # Another program wrote these lines.
                form = _find_form(text)
                values, is_of_form = form.take(text)
            if not is_of_form.all():
                # Lines with rare keys show the others; a line of another form ends this.
                lines = pl.read_lines(text).to_series()
                if len(lines) != len(is_of_form):
                    raise NoFormError
                unlike = lines.filter(~is_of_form).head(_SAMPLES)
                form = form.with_samples(_decode(line.encode() for line in unlike))
                values, is_of_form = form.take(text)
                if not is_of_form.all():
                    raise NoFormError
            self._form = form
            calls = make_calls(values, list(values_of(form.keys)), has_categories=has_categories)
        except (NoFormError, pl.exceptions.PolarsError):
            return None
        return categorize(calls) if has_categories else calls


def _find_form(text: bytes) -> _Form:
    compact, spaced = SEPARATORS
    separators = spaced if b'": ' in next(_sample(text), b"") else compact
    return _Form(separators).with_samples(_decode(_sample(text)))


def _sample(text: bytes) -> Iterator[bytes]:
    start, step = 0, len(text) // (_SAMPLES - _FIRST_SAMPLES)
    for number in range(_SAMPLES):
        if number >= _FIRST_SAMPLES:
            position = (number - _FIRST_SAMPLES) * step
            start = text.find(b"\n", position) + 1
        end = text.find(b"\n", start)
        line = text[start : end if end >= 0 else len(text)]
        if line:
            yield line
        start = end + 1 if end >= 0 else len(text)


def _decode(lines: Iterable[bytes]) -> list[Document]:
    try:
        documents = [msgspec.json.decode(line) for line in lines]
    except _DECODE_ERRORS:
        raise NoFormError from None
    if not all(isinstance(document, dict) for document in documents):
        raise NoFormError
    return documents
