#!/usr/bin/env bash
# xgrammar 0.2.9: a bound on a string's length forbids all escapes, and admits control characters.
#
# With minLength or maxLength a character of the string is any except the quote, the backslash, the line feed and
# the carriage return. So the answer has no quotes, no backslashes and no line breaks, however long it may be, and
# minLength 1 for "not empty" is enough. A tab is written as it is, which JSON does not allow (RFC 8259, section 7),
# so that the text does not parse. No warning is logged. {"type": "string"} without a bound is right.
#
# Output seen (Python 3.11): schema, text, xgrammar, jsonschema
#   {"type": "string"}                     "say \"hi\""   True  True
#   {"type": "string", "minLength": 1}     "say \"hi\""   False True
#   {"type": "string", "minLength": 1}     "a\nb"         False True
#   {"type": "string", "maxLength": 1000}  "C:\\temp"     False True
#   {"type": "string", "minLength": 1}     "a<TAB>b"      True  no JSON
#   {"type": "string"}                     "a<TAB>b"      False no JSON
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


plain = {"type": "string"}
filled = {"type": "string", "minLength": 1}
short = {"type": "string", "maxLength": 1000}
cases = [
    (plain, json.dumps('say "hi"'), True, True),
    (filled, json.dumps('say "hi"'), False, True),
    (filled, json.dumps("a\nb"), False, True),
    (short, json.dumps("C:\\temp"), False, True),
    (filled, '"a\tb"', True, "no JSON"),
    (plain, '"a\tb"', False, "no JSON"),
]
changed = False
for schema, text, admitted, valid in cases:
    found = is_admitted(schema, text), is_valid(schema, text)
    print(json.dumps(schema).ljust(37), text.replace("\t", "<TAB>").ljust(14), *found)
    changed |= found != (admitted, valid)
sys.exit(changed)
PYTHON
