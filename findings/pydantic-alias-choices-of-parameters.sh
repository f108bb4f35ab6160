#!/usr/bin/env bash
# pydantic 2.14.4: the JSON Schema of a function names a parameter that the validator refuses.
#
# A parameter with AliasChoices or AliasPath is read under its aliases alone, as a field of a model is.
# The JSON Schema of a model has the first alias; that of a function has the name of the parameter,
# which is an unexpected argument. A call that follows the schema is refused.
#
# Output seen:
#   model: properties ['total'], {"total": 1} is read
#   function: properties ['amount'], {"amount": 1} is refused: Unexpected keyword argument
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory"
"$directory/bin/pip" install --quiet pydantic==2.14.4

"$directory/bin/python" - <<'PYTHON'
import json
import sys
from typing import Annotated

from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

Amount = Annotated[int, Field(validation_alias=AliasChoices("total", "sum"))]


class Order(BaseModel):
    amount: Amount


def order(amount: Amount = 0) -> int:
    return amount


found = []
for name, kind in (("model", Order), ("function", order)):
    adapter = TypeAdapter(kind)
    names = list(adapter.json_schema()["properties"])
    text = json.dumps({names[0]: 1})
    try:
        adapter.validate_json(text)
        verdict = "is read"
    except ValidationError as error:
        verdict = f"is refused: {error.errors()[-1]['msg']}"
    found.append(verdict)
    print(f"{name}: properties {names}, {text} {verdict}")
sys.exit(0 if found[0] == "is read" and found[1].startswith("is refused") else 1)
PYTHON
