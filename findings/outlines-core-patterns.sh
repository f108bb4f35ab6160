#!/usr/bin/env bash
# outlines-core 0.2.14: a string's pattern is matched against the JSON text, whole and without escapes.
#
# The regular expression of {"type": "string", "pattern": "^.$"} is "(.)" between two quotes. So it matches """ and "\",
# which are no JSON, and not "\"", the text of a quote. [^a] and \W do the same, and a pattern that needs an escape, such as
# a backslash, has no text that parses. JSON Schema also searches a pattern (6.3.3 of the validation specification):
# "a" is matched by every string with an a, and here by "a" alone.
#
# Output seen (Python 3.11):
#   ^.$    """  matched, no JSON
#   ^.$    "\"  matched, no JSON
#   ^.$    "\"" not matched
#   ^\\$   "\"  matched, no JSON
#   ^\\$   "\\" not matched
#   a      "bab" not matched
#   a      "a" matched
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet outlines_core==0.2.14
"$folder/venv/bin/python" - <<'PY'
import json
import re

from outlines_core.json_schema import build_regex_from_schema

SEEN = [
    ("^.$", '"""', True),
    ("^.$", '"\\"', True),
    ("^.$", '"\\""', False),
    (r"^\\$", '"\\"', True),
    (r"^\\$", '"\\\\"', False),
    ("a", '"bab"', False),
    ("a", '"a"', True),
]


def parses(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


for pattern, text, expected in SEEN:
    expression = build_regex_from_schema(json.dumps({"type": "string", "pattern": pattern}))
    found = re.fullmatch(expression, text) is not None
    note = "" if parses(text) else ", no JSON"
    print(f"{pattern:6} {text} {'matched' if found else 'not matched'}{note}")
    assert found == expected, (pattern, text)
PY
