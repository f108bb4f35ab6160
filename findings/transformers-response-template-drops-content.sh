#!/usr/bin/env bash
# transformers 5.24.0: the response template for SmolLM3 of the documentation ("Response Parsing") loses the text
# before two calls that stand on lines of their own, as chat templates write them. The line feed between the calls
# is a second region of the field "content", and a later region of a field without "repeats" replaces an earlier one.
#
# Output seen (transformers 5.24.0, Python 3.11):
#   one call   {'role': 'assistant', 'content': 'I look.', 'tool_calls': [{'type': 'function', 'function': {'name': 'f'}}]}
#   two calls  ['role', 'tool_calls']
set -euo pipefail
directory="$(mktemp -d)"
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
pip="$directory/venv/bin/pip"
"$pip" install --quiet --disable-pip-version-check "transformers==5.24.0" 2>/dev/null
"$directory/venv/bin/python" - <<'PY' 2>/dev/null
import sys

from transformers.utils.chat_parsing import parse_response

template = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "thinking": {"open": "<think>", "close": "</think>", "content": "text"},
        "tool_calls": {
            "open": "<tool_call>",
            "close": "</tool_call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close": "<|im_end|>", "content": "text"},
    },
}
call = '<tool_call>\n{"name": "f"}\n</tool_call>'
one = parse_response(f"I look.\n{call}<|im_end|>", template, prefix="")
two = parse_response(f"I look.\n{call}\n{call}<|im_end|>", template, prefix="")
print("one call  ", one)
print("two calls ", sorted(two))
sys.exit((one.get("content"), two.get("content")) != ("I look.", None))
PY
