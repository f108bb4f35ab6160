#!/usr/bin/env bash
# {"type": "string", "pattern": "^[A-Z]+$", "maxLength": 3} means four different things to four engines.
#
# Versions: llguidance 1.9.1, outlines-core 0.2.14, xgrammar 0.2.9, lm-format-enforcer 0.11.3.
#
# llguidance enforces both. outlines-core enforces the length and drops the pattern without a word, and drops a `format`
# beside a length as well: with {"format": "date", "maxLength": 10} any text of ten characters is admitted. XGrammar
# enforces the pattern and logs that it ignores the length. lm-format-enforcer refuses the schema. So a type as
# common as pydantic's constr(pattern=..., max_length=...) is safe with one of them.
#
# Output seen (Python 3.11): text, llguidance, outlines-core, xgrammar, lm-format-enforcer
#   pattern and maxLength  "AB"     True  True  True  error
#   pattern and maxLength  "ABCD"   False False True  error
#   pattern and maxLength  "a b"    False True  False error
#   format and maxLength   "today"  False True  False True
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
# PyTorch, which XGrammar imports for its bit masks on tensors, is not needed here and replaced by an empty module.
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check \
    apache-tvm-ffi numpy pydantic transformers==5.24.0 \
    llguidance==1.9.1 outlines-core==0.2.14 lm-format-enforcer==0.11.3
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps xgrammar==0.2.9

TRANSFORMERS_VERBOSITY=critical "$directory/venv/bin/python" - <<'PYTHON'
import json
import re
import sys
from unittest import mock

import tvm_ffi
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from lmformatenforcer import JsonSchemaParser
from lmformatenforcer.exceptions import LMFormatEnforcerException
from outlines_core.json_schema import build_regex_from_schema
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

sys.modules["torch"] = mock.MagicMock()
import xgrammar


class Bytes:
    """A tokenizer with a token for each byte, and an end."""

    eos_token_id = 256
    bos_token_id = None
    tokens = [bytes([byte]) for byte in range(256)] + [b"<eos>"]
    special_token_ids = [256]

    def __call__(self, text):
        return list(text)


tokenizer = LLTokenizer(TokenizerWrapper(Bytes()))
compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo(Bytes.tokens, stop_token_ids=[256]))


def of_llguidance(schema, text):
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    tokens = list(text.encode())
    return matcher.validate_tokens(tokens) == len(tokens)


def of_outlines(schema, text):
    return re.fullmatch(build_regex_from_schema(json.dumps(schema)), text) is not None


def of_xgrammar(schema, text):
    matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(json.dumps(schema)))
    return all(matcher.accept_token(byte) for byte in text.encode())


def of_enforcer(schema, text):
    try:
        parser = JsonSchemaParser(schema)
        for character in text:
            if character not in parser.get_allowed_characters():
                return False
            parser = parser.add_character(character)
    except LMFormatEnforcerException:
        return "error"
    return parser.can_end()


schemas = {
    "pattern and maxLength": {"type": "string", "pattern": "^[A-Z]+$", "maxLength": 3},
    "format and maxLength": {"type": "string", "format": "date", "maxLength": 10},
}
cases = [
    ("pattern and maxLength", '"AB"', (True, True, True, "error")),
    ("pattern and maxLength", '"ABCD"', (False, False, True, "error")),
    ("pattern and maxLength", '"a b"', (False, True, False, "error")),
    ("format and maxLength", '"today"', (False, True, False, True)),
]
engines = of_llguidance, of_outlines, of_xgrammar, of_enforcer
changed = False
for name, text, expected in cases:
    found = tuple(admits(schemas[name], text) for admits in engines)
    print(name.ljust(22), text.ljust(8), *found)
    changed |= found != expected
sys.exit(changed)
PYTHON
