#!/usr/bin/env bash
# pydantic 2.14.4: in `datetime | str`, the JSON text "2024" is a moment of 1970.
#
# The smart mode of unions prefers the member that a value fits exactly, so `int | str` reads "2024" as the string that
# it is. In JSON there are no dates, so a string fits `datetime` exactly, and its lax syntax counts seconds:
# a year, a case number or a postal code becomes a time, and "0" becomes a date. `timedelta | str` reads a clock time
# as a length and a month as 30 days. It depends on the order, and on the method: validate_python keeps the strings.
# `str | datetime` keeps them too, and then reads no date at all. The JSON Schema has the format "date-time" for
# the first member, which admits none of these texts.
#
# Output seen (Python 3.11): type, text, validate_json and then dump_json, validate_python
#   int | str        "2024"   "2024"                   '2024'
#   datetime | str   "2024"   "1970-01-01T00:33:44Z"   '2024'
#   datetime | str   "02134"  "1970-01-01T00:35:34Z"   '02134'
#   date | str       "0"      "1970-01-01"             '0'
#   timedelta | str  "00:15"  "PT15M"                  '00:15'
#   timedelta | str  "P1M"    "P30D"                   'P1M'
#   str | datetime   "2024"   "2024"                   '2024'
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check pydantic==2.14.4

"$directory/venv/bin/python" - <<'PYTHON'
import json
import sys
from datetime import date, datetime, timedelta

from pydantic import TypeAdapter

cases = [
    ("int | str", int | str, "2024", "2024"),
    ("datetime | str", datetime | str, "2024", "1970-01-01T00:33:44Z"),
    ("datetime | str", datetime | str, "02134", "1970-01-01T00:35:34Z"),
    ("date | str", date | str, "0", "1970-01-01"),
    ("timedelta | str", timedelta | str, "00:15", "PT15M"),
    ("timedelta | str", timedelta | str, "P1M", "P30D"),
    ("str | datetime", str | datetime, "2024", "2024"),
]
changed = False
for name, union, text, expected in cases:
    adapter = TypeAdapter(union)
    written = json.loads(adapter.dump_json(adapter.validate_json(json.dumps(text))))
    of_python = adapter.validate_python(text)
    print(name.ljust(16), json.dumps(text).ljust(8), json.dumps(written).ljust(24), repr(of_python))
    changed |= (written, of_python) != (expected, text)
sys.exit(changed)
PYTHON
