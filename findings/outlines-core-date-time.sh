#!/usr/bin/env bash
# outlines-core 0.2.14: the formats date-time and time have no offset but Z, and date-time needs none.
#
# JSON Schema takes both from RFC 3339: an offset is required, Z or one in hours and minutes, and a fraction has
# any number of digits. Here +01:00 is refused, a fraction in date-time has three digits and in time none, and a text without
# an offset, which is no RFC 3339, is accepted. A model that is constrained to the schema thus writes local times,
# and cannot write the offset of a prompt. jsonschema-rs 0.60.3 judges the same texts by the RFC.
#
# Output seen (Python 3.11): text, outlines-core, jsonschema-rs
#   date-time "2024-01-01T00:00:00Z" True True
#   date-time "2024-01-01T00:00:00.125Z" True True
#   date-time "2024-01-01T00:00:00.5Z" False True
#   date-time "2024-01-01T00:00:00+01:00" False True
#   date-time "2024-01-01T00:00:00" True False
#   time "12:00:00Z" True True
#   time "12:00:00+01:00" False True
#   time "12:00:00.5Z" False True
#   time "12:00:00" True False
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet outlines_core==0.2.14 jsonschema-rs==0.60.3
"$folder/venv/bin/python" - <<'PY'
import json
import re

import jsonschema_rs
from outlines_core.json_schema import build_regex_from_schema

SEEN = [
    ("date-time", "2024-01-01T00:00:00Z", True, True),
    ("date-time", "2024-01-01T00:00:00.125Z", True, True),
    ("date-time", "2024-01-01T00:00:00.5Z", False, True),
    ("date-time", "2024-01-01T00:00:00+01:00", False, True),
    ("date-time", "2024-01-01T00:00:00", True, False),
    ("time", "12:00:00Z", True, True),
    ("time", "12:00:00+01:00", False, True),
    ("time", "12:00:00.5Z", False, True),
    ("time", "12:00:00", True, False),
]
for name, value, *expected in SEEN:
    schema = {"type": "string", "format": name}
    text = json.dumps(value)
    expression = build_regex_from_schema(json.dumps(schema))
    by_outlines = re.fullmatch(expression, text) is not None
    by_rust = jsonschema_rs.validator_for(schema, validate_formats=True).is_valid(value)
    print(name, text, by_outlines, by_rust)
    assert [by_outlines, by_rust] == expected, (name, value)
PY
