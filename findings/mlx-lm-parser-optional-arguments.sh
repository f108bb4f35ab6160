#!/usr/bin/env bash
# mlx-lm 0.32.2: the parser of Qwen3-Coder's calls reads an optional argument otherwise than the same one required.
#
# An argument stands between tags without quotes, so its schema decides what it is. tool_parsers/qwen3_coder.py looks at
# `type` alone. pydantic writes `int | None` as anyOf, and such an argument stays a text, as numbers and Booleans of
# anyOf and $ref do. A list of types, {"type": ["string", "null"]}, is read as a Python literal, so the string "12"
# becomes a number and "1_000" too. "Null" is null for every type, also where a name is a required string. Integers
# pass through a float, which rounds those beyond 2**53.
#
# Output seen (Python 3.11): schema, written, read
#   {"type": "integer"}                              3                 3
#   {"anyOf": [{"type": "integer"}, {"type": "null"}]}  3              '3'
#   {"anyOf": [{"type": "boolean"}, {"type": "null"}]}  true           'true'
#   {"type": ["string", "null"]}                     12                12
#   {"type": ["string", "null"]}                     1_000             1000
#   {"type": "string"}                               Null              None
#   {"type": "integer"}                              9007199254740993  9007199254740992
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory="$(mktemp -d)"
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
pip="$directory/venv/bin/pip"
"$pip" download --quiet --disable-pip-version-check --no-deps --dest "$directory" "mlx-lm==0.32.2"
"$pip" install --quiet --disable-pip-version-check regex pydantic==2.14.4
"$directory/venv/bin/python" -m zipfile -e "$directory"/mlx_lm-*.whl "$directory/mlx-lm"
# The parser alone, as a module: importing the package needs mlx.
cp "$directory/mlx-lm/mlx_lm/tool_parsers/qwen3_coder.py" "$directory/parser_of_calls.py"

PYTHONPATH="$directory" "$directory/venv/bin/python" - <<'PYTHON'
import json
import sys
from typing import Optional

import parser_of_calls
from pydantic import TypeAdapter

texts = {"type": ["string", "null"]}
cases = [
    (TypeAdapter(int).json_schema(), "3", 3),
    (TypeAdapter(Optional[int]).json_schema(), "3", "3"),
    (TypeAdapter(Optional[bool]).json_schema(), "true", "true"),
    (texts, "12", 12),
    (texts, "1_000", 1000),
    (TypeAdapter(str).json_schema(), "Null", None),
    (TypeAdapter(int).json_schema(), "9007199254740993", 9007199254740992),
]
changed = False
for schema, written, expected in cases:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": schema}}}}]
    call = f"<function=f>\n<parameter=x>\n{written}\n</parameter>\n</function>"
    read = parser_of_calls.parse_tool_call(call, tools)["arguments"]["x"]
    print(json.dumps(schema).ljust(51), written.ljust(17), repr(read))
    changed |= type(read) is not type(expected) or read != expected
sys.exit(changed)
PYTHON
