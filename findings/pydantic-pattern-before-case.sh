#!/usr/bin/env bash
# pydantic tests a string's pattern and length before it converts the case.
#
# Versions: pydantic 2.14.4, Python 3.11.
#
# StringConstraints(to_lower=True, pattern="^[A-Z]+$") reads "ABC" and keeps "abc", which does not
# match its own pattern; StringConstraints(to_upper=True, max_length=1) reads "ß" and keeps "SS",
# which has two characters. So a model does not read its own JSON:
#
#   value:    {'code': 'abc', 'letter': 'SS'}
#   written:  {"code":"abc","letter":"SS"}
#   read:     string_pattern_mismatch, string_too_long
#
# White space, in contrast, is stripped before pattern and length are tested. The documentation of
# StringConstraints names no order. The JSON Schema has the pattern, so that a generator of JSON
# cannot know which case is meant.
#
# Exits with 0 while pydantic behaves like this.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet "pydantic==2.14.4"
cat > "$folder/probe.py" <<'PYTHON'
from typing import Annotated

from pydantic import BaseModel, StringConstraints, ValidationError


class Item(BaseModel):
    code: Annotated[str, StringConstraints(to_lower=True, pattern="^[A-Z]+$")]
    letter: Annotated[str, StringConstraints(to_upper=True, max_length=1)]


item = Item(code="ABC", letter="ß")
assert item.model_dump() == {"code": "abc", "letter": "SS"}, item
written = item.model_dump_json()
print(written)
try:
    Item.model_validate_json(written)
except ValidationError as error:
    kinds = [each["type"] for each in error.errors()]
    print(kinds)
    assert kinds == ["string_pattern_mismatch", "string_too_long"], kinds
else:
    raise SystemExit("pydantic reads its own JSON")
PYTHON
"$folder/env/bin/python" "$folder/probe.py"
