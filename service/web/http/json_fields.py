"""Decode small JSON bodies of plain fields, or of lists of objects with such fields.

Only the schema's own fields are built: whatever else a body contains costs no memory. Where other
fields are errors, their names are read, of which a small body has few.
"""

import re
from functools import cache
from typing import Any, Final

import msgspec
from marshmallow import RAISE, Schema, fields

from detectors.formats.problems import shown_name
from service.errors import BadRequestError, InvalidRequestError

_Plain = str | int | float | bool | None | msgspec.UnsetType
_Objects = list[dict[str, str | int | float | bool | None]] | msgspec.UnsetType
_NAMES: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FIELD: Final = re.compile(r"at `\$\.(\w+)[^`]*`$")


def decode_fields(body: bytes, schema: Schema) -> dict[str, Any] | None:
    """Return the schema's fields, or None if the body is not an object.

    Raise `InvalidRequestError` for a field that is not a plain value or, if the schema raises for
    unknown fields, for these; `BadRequestError` for a body that is not JSON.
    """
    try:
        decoded = _decoder(type(schema)).decode(body)
    except msgspec.ValidationError as error:
        found = _FIELD.search(str(error))
        if found is None:
            return None
        name = found[1]
        words = schema.fields[name].error_messages.get("invalid", "must be a plain value")
        raise InvalidRequestError(f"{name} {words}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError("The body isn't valid JSON.") from error
    if schema.unknown == RAISE:
        unknown = [name for name in _NAMES.decode(body) if name not in schema.fields]
        if unknown:
            names = ", ".join(dict.fromkeys(map(shown_name, unknown)))
            raise InvalidRequestError(
                f"Contains unknown fields: {names}. Send only: {', '.join(schema.fields)}."
            )
    given = msgspec.structs.asdict(decoded)
    return {name: value for name, value in given.items() if value is not msgspec.UNSET}


@cache
def _decoder(schema: type[Schema]) -> msgspec.json.Decoder[msgspec.Struct]:
    kinds = {
        name: _Objects if isinstance(field, fields.List) else _Plain
        for name, field in schema().fields.items()
    }
    members = [(name, kind, msgspec.UNSET) for name, kind in kinds.items()]
    return msgspec.json.Decoder(msgspec.defstruct(schema.__name__, members))
