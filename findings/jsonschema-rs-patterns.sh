#!/usr/bin/env bash
# jsonschema-rs 0.60.3: patterns of ECMA-262 are "not a regex", and patterns that only Rust knows are taken.
#
# JSON Schema takes regular expressions of ECMA-262. The empty class [], its complement [^], \0, [\b] and a back-reference
# by name are valid there, with the flag u and without; a schema with one of them is refused. Inline flags such as
# (?i) beside a text, possessive quantifiers and \x{61} are errors in ECMA-262 with the flag u, and are enforced with
# their meaning in Rust. jsonschema with Python's dialect disagrees about other patterns, so two validators of one schema
# need not agree on whether it is a schema.
#
# Output seen (Python 3.11, Node.js 20):
#   ECMA-262 takes and jsonschema-rs refuses: ^[^]$ ^[]$ ^\0$ ^[\b]$ ^(?<y>a)\k<y>$
#   ECMA-262 refuses and jsonschema-rs takes: ^(?i)a$ ^a++$ ^\x{61}$ (?P<a>b)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet jsonschema-rs==0.60.3
cat >"$folder/ecma.js" <<'JS'
const isValid = (pattern) => {
  try { new RegExp(pattern, "u"); return true; } catch { return false; }
};
console.log(JSON.stringify(JSON.parse(process.argv[2]).map(isValid)));
JS
"$folder/venv/bin/python" - "$folder/ecma.js" <<'PY'
import json
import subprocess
import sys

import jsonschema_rs

ECMA = ["^[^]$", "^[]$", r"^\0$", r"^[\b]$", r"^(?<y>a)\k<y>$"]
RUST = ["^(?i)a$", "^a++$", r"^\x{61}$", "(?P<a>b)"]


def takes(pattern):
    try:
        jsonschema_rs.validator_for({"type": "string", "pattern": pattern})
    except (ValueError, jsonschema_rs.ValidationError):
        return False
    return True


patterns = ECMA + RUST
command = ["node", sys.argv[1], json.dumps(patterns)]
by_node = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
by_rust = [takes(pattern) for pattern in patterns]
for pattern, node, rust in zip(patterns, by_node, by_rust):
    print(f"{pattern:18} ECMA-262 {node}, jsonschema-rs {rust}")
assert by_node == [True] * len(ECMA) + [False] * len(RUST), by_node
assert by_rust == [False] * len(ECMA) + [True] * len(RUST), by_rust
PY
