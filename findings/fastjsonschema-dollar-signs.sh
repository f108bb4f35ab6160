#!/usr/bin/env bash
# fastjsonschema 2.22.3: a dollar sign in a character class makes the schema an error.
#
# Python's $ also matches before a last line feed, so fastjsonschema writes \Z for each $ of a `pattern` that no
# backslash precedes. In a class, where $ is a dollar sign, \Z is no escape. So compile() raises re.error for the
# pattern of a price or of a JavaScript name, where the documentation names JsonSchemaDefinitionException. The names of
# patternProperties are not rewritten: the same "^a$" refuses "a\n" as a value, and matches it as a name.
#
# Output seen (Python 3.11): schema, value, fastjsonschema, jsonschema-rs 0.61.2
#   {"pattern": "^[$€][0-9]+$"}                           "$5"      re.error  True
#   {"pattern": "^[A-Za-z_$][\\w$]*$"}                    "name"    re.error  True
#   {"pattern": "^\\$[0-9]+$"}                            "$5"      True      True
#   {"patternProperties": {"^[$]": {"type": "integer"}}}  {"$": 1}  True      True
#   {"pattern": "^a$"}                                    "a\n"     False     False
#   {"patternProperties": {"^a$": false}}                 {"a\n": 1}  False   True
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check fastjsonschema==2.22.3 jsonschema-rs==0.61.2

"$directory/venv/bin/python" - <<'PYTHON'
import json
import re
import sys

import fastjsonschema
import jsonschema_rs


def is_valid(schema, value):
    try:
        fastjsonschema.compile(schema)(value)
    except fastjsonschema.JsonSchemaValueException:
        return False
    except re.error:
        return "re.error"
    return True


cases = [
    ({"pattern": "^[$€][0-9]+$"}, "$5", "re.error", True),
    ({"pattern": r"^[A-Za-z_$][\w$]*$"}, "name", "re.error", True),
    ({"pattern": r"^\$[0-9]+$"}, "$5", True, True),
    ({"patternProperties": {"^[$]": {"type": "integer"}}}, {"$": 1}, True, True),
    ({"pattern": "^a$"}, "a\n", False, False),
    ({"patternProperties": {"^a$": False}}, {"a\n": 1}, False, True),
]
changed = False
for schema, value, fast, other in cases:
    found = is_valid(schema, value), jsonschema_rs.Draft7Validator(schema).is_valid(value)
    print(json.dumps(schema, ensure_ascii=False).ljust(53), json.dumps(value).ljust(10), *found)
    changed |= found != (fast, other)
sys.exit(changed)
PYTHON
