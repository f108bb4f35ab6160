#!/usr/bin/env bash
# pyarrow 26.0.1: pyarrow.array changes values of mixed classes, where it refuses other mixtures.
#
# The type is that of the first classes seen. A time behind a date loses its hours, and a Boolean
# beside a nested float becomes a number, without an error; [True, 0.5] at the top is refused. With
# the type int64, 2.5 becomes 2, which a safe cast refuses. So columns of values from elsewhere need a
# check of their classes before this function.
#
# Output seen:
#   [date, datetime] -> [datetime.date(2024, 5, 6), datetime.date(2024, 5, 6)]
#   [{'a': False}, {'a': 0.5}] -> [{'a': 0.0}, {'a': 0.5}]
#   [True, 0.5] -> ArrowInvalid
#   [2.5] as int64 -> [2]
#   [2.5] cast to int64 -> ArrowInvalid
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet pyarrow==26.0.1

"$directory/venv/bin/python" - <<'PYTHON'
import datetime
import sys

import pyarrow


def read(make):
    try:
        return make().to_pylist()
    except pyarrow.ArrowException as error:
        return type(error).__name__


day, time = datetime.date(2024, 5, 6), datetime.datetime(2024, 5, 6, 7, 8)
found = {
    "[date, datetime]": read(lambda: pyarrow.array([day, time])),
    "[{'a': False}, {'a': 0.5}]": read(lambda: pyarrow.array([{"a": False}, {"a": 0.5}])),
    "[True, 0.5]": read(lambda: pyarrow.array([True, 0.5])),
    "[2.5] as int64": read(lambda: pyarrow.array([2.5], pyarrow.int64())),
    "[2.5] cast to int64": read(lambda: pyarrow.array([2.5]).cast(pyarrow.int64())),
}
for values, result in found.items():
    print(f"{values} -> {result}")
expected = [[day, day], [{"a": 0.0}, {"a": 0.5}], "ArrowInvalid", [2], "ArrowInvalid"]
sys.exit(0 if list(found.values()) == expected else 1)
PYTHON
