#!/usr/bin/env bash
# json-repair 0.64.6: a flaw elsewhere in the text changes strings that are whole.
#
# loads() reads a right text with the parser of Python. If there is a flaw, such as a last brace that is missing, it
# reads the whole text again with rules of its own, and these change strings without a flaw. The last line feeds
# of a string are stripped, so that a file loses its last one and a separator is empty. A backslash before a quote is
# dropped, so that a string that holds escaped text is another one. A code block loses its fence and language.
# stream_stable=True keeps the line feeds.
#
# Output seen (Python 3.11), the text as it is, without its last brace, and the latter with stream_stable=True:
#   'print(1)\n'          'print(1)\n'          'print(1)'         'print(1)\n'
#   '\n'                  '\n'                  ''                 '\n'
#   'say \\"hi\\"'        'say \\"hi\\"'        'say "hi"'         'say "hi"'
#   '```json\n{}\n```'    '```json\n{}\n```'    'n{}\n```'         'n{}\n```'
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check json-repair==0.64.6

"$directory/venv/bin/python" - <<'PYTHON'
import json
import sys

import json_repair

cases = [
    ("print(1)\n", "print(1)", "print(1)\n"),
    ("\n", "", "\n"),
    ('say \\"hi\\"', 'say "hi"', 'say "hi"'),
    ("```json\n{}\n```", "n{}\n```", "n{}\n```"),
]
changed = False
for written, repaired, streamed in cases:
    whole = json.dumps({"text": written})
    cut = whole.removesuffix("}")
    found = (
        json_repair.loads(whole)["text"],
        json_repair.loads(cut)["text"],
        json_repair.loads(cut, stream_stable=True)["text"],
    )
    print(*(repr(text).ljust(21) for text in (written, *found)))
    changed |= found != (written, repaired, streamed)
sys.exit(changed)
PYTHON
