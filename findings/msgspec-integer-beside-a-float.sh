#!/usr/bin/env bash
# msgspec 0.22.0: the JSON Schema of a union of numbers admits integers that the decoder refuses.
#
# msgspec.json.decode selects the choice of a union by the kind of the JSON value: a number without a
# point goes to the integer, also if the integer's bounds refuse it and the float would read it. The
# same holds for an IntEnum. msgspec.json.schema lists both choices as anyOf, so -1 is valid against
# the schema of `Annotated[int, Meta(ge=0)] | float`.
#
# Output seen:
#   int >= 0 | float: schema of -1 valid, decode: Expected `int` >= 0; -1.0 is read as -1.0
#   IntEnum | float: schema of 7 valid, decode: Invalid enum value 7; 7.0 is read as 7.0
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory"
"$directory/bin/pip" install --quiet msgspec==0.22.0 jsonschema==4.26.0

"$directory/bin/python" - <<'PYTHON'
import enum
import json
import sys
from typing import Annotated, Union

import jsonschema
import msgspec


class Level(enum.IntEnum):
    LOW = 1


CASES = (
    ("int >= 0 | float", Union[Annotated[int, msgspec.Meta(ge=0)], float], "-1", "-1.0"),
    ("IntEnum | float", Union[Level, float], "7", "7.0"),
)


def refusal(kind, text):
    """Return the error of the decoder; empty if it reads the text."""
    try:
        msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


refused = []
for name, kind, integer, other in CASES:
    jsonschema.validate(json.loads(integer), msgspec.json.schema(kind))
    refused.append(refusal(kind, integer))
    value = msgspec.json.decode(other, type=kind)
    print(f"{name}: schema of {integer} valid, decode: {refused[-1]}; {other} is read as {value!r}")
sys.exit(0 if all(refused) else 1)
PYTHON
