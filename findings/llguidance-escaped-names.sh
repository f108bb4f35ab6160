#!/usr/bin/env bash
# llguidance 1.9.1: a name that is written with an escape is not the property of that name.
#
# {"gr\u00f6\u00dfe": "L"} is an object with the member "größe"; json.dumps of Python writes it like this. The mask
# of a schema with the property "größe" of type integer admits the text, since the escaped name counts as another one,
# which may have any value. The same holds for patterns of names. A name that is written twice counts twice
# for minProperties, and is one member for most parsers. Strings elsewhere have no such escapes: the mask for
# {"type": "string"} refuses "\u00f6".
#
# Output seen (Python 3.11): schema, text, llguidance, jsonschema
#   {"properties": {"größe": {"type": "integer"}}}         {"gr\u00f6\u00dfe": "L"}  True False
#   {"properties": {"größe": {"type": "integer"}}}         {"größe": "L"}            False False
#   {"patternProperties": {"^gr": {"type": "integer"}}}    {"\u0067r": "L"}          True False
#   {"additionalProperties": ..., "minProperties": 2}      {"a": 1, "a": 2}          True False
#   {"type": "string"}                                     "\u00f6"                  False True
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check llguidance==1.9.1 jsonschema==4.26.0

"$directory/venv/bin/python" - <<'PYTHON'
import json
import sys

from jsonschema import Draft202012Validator
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper


class Bytes:
    """A tokenizer with a token for each byte, and an end."""

    eos_token_id = 256
    bos_token_id = None
    tokens = [bytes([byte]) for byte in range(256)] + [b"<eos>"]
    special_token_ids = [256]

    def __call__(self, text):
        return list(text)


tokenizer = LLTokenizer(TokenizerWrapper(Bytes()))


def is_admitted(schema, text):
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    if matcher.get_error():
        raise RuntimeError(matcher.get_error())
    tokens = list(text.encode())
    if matcher.validate_tokens(tokens) < len(tokens):
        return False
    matcher.consume_tokens(tokens)
    return matcher.is_accepting()


size = {"type": "object", "properties": {"größe": {"type": "integer"}}}
pattern = {"type": "object", "patternProperties": {"^gr": {"type": "integer"}}}
two = {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2}
cases = [
    (size, json.dumps({"größe": "L"}), True, False),
    (size, '{"größe": "L"}', False, False),
    (pattern, '{"\\u0067r": "L"}', True, False),
    (two, '{"a": 1, "a": 2}', True, False),
    ({"type": "string"}, '"\\u00f6"', False, True),
]
changed = False
for schema, text, admitted, valid in cases:
    found = is_admitted(schema, text), Draft202012Validator(schema).is_valid(json.loads(text))
    print(json.dumps(schema, ensure_ascii=False), text, *found)
    changed |= found != (admitted, valid)
sys.exit(changed)
PYTHON
