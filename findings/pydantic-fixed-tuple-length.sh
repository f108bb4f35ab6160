#!/usr/bin/env bash
# pydantic 2.14.4: a length on a tuple of fixed items replaces the number of items in the JSON Schema.
#
# A `tuple[int, int]` has two items, and its JSON Schema minItems and maxItems of 2. With
# Field(min_length=1, max_length=5) the validator still reads two items alone, but the JSON Schema has
# minItems 1 and maxItems 5, so it admits arrays of one item and of three.
#
# Output seen:
#   minItems 1, maxItems 5
#   [1]: valid, refused: Field required
#   [1, 2, 3]: valid, refused: Tuple should have at most 2 items after validation, not 3
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory"
"$directory/bin/pip" install --quiet pydantic==2.14.4 jsonschema==4.26.0

"$directory/bin/python" - <<'PYTHON'
import json
import sys
from typing import Annotated

import jsonschema
from pydantic import Field, TypeAdapter, ValidationError

adapter = TypeAdapter(Annotated[tuple[int, int], Field(min_length=1, max_length=5)])
schema = adapter.json_schema()
print(f"minItems {schema['minItems']}, maxItems {schema['maxItems']}")
refused = 0
for text in ("[1]", "[1, 2, 3]"):
    jsonschema.validate(json.loads(text), schema)
    try:
        adapter.validate_json(text)
    except ValidationError as error:
        refused += 1
        print(f"{text}: valid, refused: {error.errors()[0]['msg']}")
sys.exit(0 if refused == 2 else 1)
PYTHON
