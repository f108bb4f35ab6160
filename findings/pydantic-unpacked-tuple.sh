#!/usr/bin/env bash
# pydantic 2.14.4: an unpacked tuple within a tuple is read as a nested tuple.
#
# `tuple[int, *tuple[str, ...], bool]` (PEP 646) is an int, any number of strings, and a bool. pydantic
# drops the star without a note: it refuses such values, reads a nested list, and its JSON Schema says the
# same. The spelling with `Unpack`, which is equal by the PEP, is an error instead:
#
#   refused [1, true]
#   refused [1, "a", "b", true]
#   read [1, ["a", "b"], true]: (1, ('a', 'b'), True)
#   minItems 3, maxItems 3
#   tuple[int, Unpack[tuple[str, ...]], bool]: PydanticSchemaGenerationError
#
# pydantic-core itself has such tuples (`tuple_schema(..., variadic_item_index=1)`).
#
# Exits with 1 if the behaviour has changed.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check pydantic==2.14.4

"$directory/venv/bin/python" - <<'PYTHON'
import sys

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from typing_extensions import Unpack

# Python 3.11 and later.
adapter = TypeAdapter(eval("tuple[int, *tuple[str, ...], bool]"))


def read(text):
    try:
        value = adapter.validate_json(text)
    except ValidationError:
        print("refused", text)
        return False
    print(f"read {text}: {value}")
    return True


found = [read("[1, true]"), read('[1, "a", "b", true]'), read('[1, ["a", "b"], true]')]
schema = adapter.json_schema()
print(f"minItems {schema['minItems']}, maxItems {schema['maxItems']}")
found += [schema["minItems"] == 3, schema["maxItems"] == 3]
try:
    TypeAdapter(tuple[int, Unpack[tuple[str, ...]], bool])
    found.append(True)
except PydanticSchemaGenerationError:
    print("tuple[int, Unpack[tuple[str, ...]], bool]: PydanticSchemaGenerationError")
    found.append(False)
sys.exit(found != [False, False, True, True, True, False])
PYTHON
