#!/usr/bin/env bash
# xgrammar 0.2.9: keywords beside anyOf, allOf, $ref or enum have no effect, so that right answers are refused.
#
# A search tool has a query, and an id or a name: its properties and `required` stand beside an anyOf of two `required`.
# The grammar is that of the branches alone. They have no type, so 5 is admitted, and so is {"id": "x"} where `id`
# is an integer. A branch with properties of its own is an object of these properties alone, so that the right object
# is refused. The same holds for a definition that is extended beside allOf. None of these schemas gets a warning.
# The options are the defaults.
#
# Output seen (Python 3.11): schema, text, xgrammar, jsonschema
#   id or name required    {"id": 1}                 True  True
#   id or name required    {"id": "x"}               True  False
#   id or name required    {}                        True  False
#   id or name required    5                         True  False
#   query, and id or name  {"query": "q", "id": 1}   False True
#   query, and id or name  {"id": 1}                 True  False
#   extended definition    {"a": 1, "b": 1}          False True
#   extended definition    {"a": 1}                  True  False
#   $ref and enum          "c"                       True  False
#   enum and minimum       1                         True  False
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


integer, string = {"type": "integer"}, {"type": "string"}
schemas = {
    "id or name required": {
        "type": "object",
        "properties": {"id": integer, "name": string},
        "additionalProperties": False,
        "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
    },
    "query, and id or name": {
        "type": "object",
        "properties": {"query": string},
        "required": ["query"],
        "anyOf": [
            {"properties": {"id": integer}, "required": ["id"]},
            {"properties": {"name": string}, "required": ["name"]},
        ],
    },
    "extended definition": {
        "$defs": {"base": {"type": "object", "properties": {"a": integer}, "required": ["a"]}},
        "allOf": [{"$ref": "#/$defs/base"}],
        "type": "object",
        "properties": {"b": integer},
        "required": ["b"],
    },
    "$ref and enum": {"$defs": {"text": string}, "$ref": "#/$defs/text", "enum": ["a", "b"]},
    "enum and minimum": {"enum": [1, 5], "minimum": 3},
}
cases = [
    ("id or name required", '{"id": 1}', True, True),
    ("id or name required", '{"id": "x"}', True, False),
    ("id or name required", "{}", True, False),
    ("id or name required", "5", True, False),
    ("query, and id or name", '{"query": "q", "id": 1}', False, True),
    ("query, and id or name", '{"id": 1}', True, False),
    ("extended definition", '{"a": 1, "b": 1}', False, True),
    ("extended definition", '{"a": 1}', True, False),
    ("$ref and enum", '"c"', True, False),
    ("enum and minimum", "1", True, False),
]
changed = False
for name, text, admitted, valid in cases:
    found = is_admitted(schemas[name], text), is_valid(schemas[name], text)
    print(name.ljust(22), text.ljust(25), *found)
    changed |= found != (admitted, valid)
sys.exit(changed)
PYTHON
