#!/usr/bin/env bash
# transformers 5.24.0: with the option "tools", the parser of response templates converts an argument of tags to the
# first other type that its schema admits, also if the schema admits strings. A postal code loses its zero, the name
# "None" becomes null, and the integer 1 becomes a Boolean. Integers of a "number" are rounded to a double.
#
# Output seen (transformers 5.24.0, Python 3.11):
#   written '02134', ['string', 'integer']: read 2134
#   written 'None', ['string', 'null']: read None
#   written '1', ['boolean', 'integer']: read True
#   written '9007199254740993', number: read 9007199254740992
set -euo pipefail
directory="$(mktemp -d)"
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
pip="$directory/venv/bin/pip"
"$pip" install --quiet --disable-pip-version-check "transformers==5.24.0" 2>/dev/null
"$directory/venv/bin/python" - <<'PY' 2>/dev/null
import sys

from transformers.utils.chat_parsing import parse_response

call = {
    "open_pattern": r"<function=(?P<name>\w+)>",
    "close": "</function>",
    "repeats": True,
    "content": "xml-inline",
    "content_args": {"tag_pattern": r"<parameter=(?P<key>\w+)>(?P<value>.*?)</parameter>"},
    "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
}
template = {"start_anchor": "<assistant>", "fields": {"tool_calls": call}}
found = []
for kind, written in (
    (["string", "integer"], "02134"),
    (["string", "null"], "None"),
    (["boolean", "integer"], "1"),
    ("number", "9007199254740993"),
):
    parameters = {"type": "object", "properties": {"a": {"type": kind}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    text = f"<function=f><parameter=a>{written}</parameter></function>"
    message = parse_response(text, template, prefix="", tools=tools)
    found.append(message["tool_calls"][0]["function"]["arguments"]["a"])
    print(f"written {written!r}, {kind}: read {found[-1]!r}")
sys.exit([repr(value) for value in found] != ["2134", "None", "True", "9007199254740992"])
PY
