#!/usr/bin/env bash
# xgrammar 0.2.9: a bound on a number limits it to six decimals, and to no exponent.
#
# {"type": "number"} admits every number of JSON. With minimum: 0, or the bounds of a longitude, a seventh decimal is
# refused, and so are exponents: 0.30000000000000004, the sum of 0.1 and 0.2 as Python prints it, and the
# probability 1e-9 cannot be written. With minimum: 1e-7 the bound itself is refused, in either spelling. The mask ends
# such a number early, so that the model writes another one, without a warning.
#
# Output seen (Python 3.11): schema, text, xgrammar, jsonschema
#   {"type": "number"}                                     0.30000000000000004  True  True
#   {"type": "number", "minimum": 0}                       0.30000000000000004  False True
#   {"type": "number", "minimum": 0}                       1e-9                 False True
#   {"type": "number", "minimum": 0}                       6.02e23              False True
#   {"type": "number", "minimum": -180, "maximum": 180}    -0.1277583           False True
#   {"type": "number", "minimum": -180, "maximum": 180}    -0.127758            True  True
#   {"type": "number", "minimum": 1e-07}                   0.0000001            False True
#   {"type": "number", "minimum": 1e-07}                   1e-07                False True
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
# PyTorch, which XGrammar imports for its bit masks on tensors, is not needed here and replaced by an empty module.
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check \
    apache-tvm-ffi numpy pydantic transformers==5.24.0 jsonschema==4.26.0
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps xgrammar==0.2.9

TRANSFORMERS_VERBOSITY=critical "$directory/venv/bin/python" - <<'PYTHON'
import json
import sys
from unittest import mock

import tvm_ffi
from jsonschema import Draft202012Validator
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

sys.modules["torch"] = mock.MagicMock()
import xgrammar

tokens = [bytes([byte]) for byte in range(256)] + [b"</s>"]
compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo(tokens, stop_token_ids=[256]))


def is_admitted(schema, text):
    matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(json.dumps(schema)))
    return all(matcher.accept_token(byte) for byte in text.encode()) and matcher.accept_token(256)


def is_valid(schema, text):
    try:
        return Draft202012Validator(schema).is_valid(json.loads(text))
    except json.JSONDecodeError:
        return "no JSON"


number = {"type": "number"}
positive = {"type": "number", "minimum": 0}
longitude = {"type": "number", "minimum": -180, "maximum": 180}
tiny = {"type": "number", "minimum": 1e-7}
cases = [
    (number, "0.30000000000000004", True),
    (positive, "0.30000000000000004", False),
    (positive, "1e-9", False),
    (positive, "6.02e23", False),
    (longitude, "-0.1277583", False),
    (longitude, "-0.127758", True),
    (tiny, "0.0000001", False),
    (tiny, "1e-07", False),
]
changed = False
for schema, text, admitted in cases:
    found = is_admitted(schema, text), is_valid(schema, text)
    print(json.dumps(schema).ljust(52), text.ljust(19), *found)
    changed |= found != (admitted, True)
sys.exit(changed)
PYTHON
