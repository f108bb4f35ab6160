#!/usr/bin/env bash
# msgspec 0.22.0: Raw is ignored in a union.
#
# Raw alone takes any JSON text. In a union it adds nothing, without an error when the decoder is
# made: Raw | None reads null alone. The schema of the union admits every value, and inspect lists
# Raw as a choice.
#
# Output seen:
#   Raw         1     read
#   Raw | None  1     refused: Expected `null`, got `int`
#   Raw | None  null  read
#   schema of Raw | None: {'anyOf': [{}, {'type': 'null'}]}
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check msgspec==0.22.0

"$directory/venv/bin/python" - <<'PYTHON'
from typing import Union

import msgspec
from msgspec import Raw, inspect

OPTIONAL = Union[Raw, None]


def verdict(kind, text):
    try:
        msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        return f"refused: {error}"
    return "read"


for name, kind, text in (("Raw", Raw, "1"), ("Raw | None", OPTIONAL, "1"), ("Raw | None", OPTIONAL, "null")):
    print(name.ljust(11), text.ljust(5), verdict(kind, text))
print("schema of Raw | None:", msgspec.json.schema(OPTIONAL))

assert verdict(Raw, "1") == "read"
assert verdict(OPTIONAL, "1") == "refused: Expected `null`, got `int`"
assert verdict(OPTIONAL, "null") == "read"
assert msgspec.json.schema(OPTIONAL) == {"anyOf": [{}, {"type": "null"}]}
assert isinstance(inspect.type_info(OPTIONAL).types[0], inspect.RawType)
PYTHON
