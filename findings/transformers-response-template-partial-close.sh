#!/usr/bin/env bash
# transformers 5.24.0: with a list of texts that close a field of a response template, where one text begins with
# another, a streamed answer is read otherwise than the whole one. The parser takes the shorter text as soon as a
# part of the rest of the longer one has arrived. Its documentation says "a list of strings means match any of
# these"; the whole answer is read by the longest.
#
# Output seen (transformers 5.24.0, Python 3.11):
#   whole    {'tool_calls': [{'a': '1'}]}
#   streamed {'tool_calls': [{'a': '1'}], 'content': '</calls>'}
set -euo pipefail
directory="$(mktemp -d)"
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
pip="$directory/venv/bin/pip"
"$pip" install --quiet --disable-pip-version-check "transformers==5.24.0" 2>/dev/null
"$directory/venv/bin/python" - <<'PY' 2>/dev/null
import sys

from transformers.utils.chat_parsing import ResponseParser, parse_response

template = {
    "start_anchor": "assistant",
    "fields": {
        "tool_calls": {
            "open": "<calls>",
            "close": ["</call>", "</call></calls>"],
            "repeats": True,
            "content": "xml-inline",
            "content_args": {"tag_pattern": "<(?P<key>[a-z]+)>(?P<value>[^<]*)"},
        },
        "content": {},
    },
}
text = "<calls><a>1</call></calls>"
whole = parse_response(text, template, prefix="")
parser = ResponseParser(template, prefix="")
for character in text:
    parser.feed(character)
streamed, _ = parser.finalize()
print("whole   ", whole)
print("streamed", streamed)
call = {"tool_calls": [{"a": "1"}]}
sys.exit((whole, streamed) != (call, {**call, "content": "</calls>"}))
PY
