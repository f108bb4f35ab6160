#!/usr/bin/env bash
# pydantic 2.14.4: dicts whose keys are Literals of numbers, or members of an Enum of numbers, are written as
# JSON, but their own output is refused.
#
# Names in JSON are texts. For `dict[int, ...]` and `dict[IntEnum, ...]` pydantic reads the number in a name;
# for a Literal, for a plain Enum of floats and for None it compares the text with the value:
#
#   dict[int, int]             {"1":5} is read
#   dict[Level, int]           {"1":5} is read        (an IntEnum)
#   dict[Literal[1, 2], int]   {"1":5} is refused
#   dict[Ratio, int]           {"0.5":5} is refused   (an Enum of floats)
#   dict[None, int]            {"None":5} is refused
#   dict[tuple[int, int], int] {"1,2":5} is refused
#
# So no member can be written in JSON for these types: `{}` is the one object that they read.
#
# Exits with 1 if the behaviour has changed.
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check pydantic==2.14.4

"$directory/venv/bin/python" - <<'PYTHON'
import enum
import sys
from typing import Literal

from pydantic import TypeAdapter, ValidationError


class Level(enum.IntEnum):
    LOW = 1


class Ratio(enum.Enum):
    HALF = 0.5


def is_read_back(kind, key):
    adapter = TypeAdapter(kind)
    text = adapter.dump_json({key: 5})
    try:
        adapter.validate_json(text)
    except ValidationError:
        verdict = False
    else:
        verdict = True
    print(f"{kind}: {text.decode()} is {'read' if verdict else 'refused'}")
    return verdict


found = [
    is_read_back(dict[int, int], 1),
    is_read_back(dict[Level, int], Level.LOW),
    is_read_back(dict[Literal[1, 2], int], 1),
    is_read_back(dict[Ratio, int], Ratio.HALF),
    is_read_back(dict[None, int], None),
    is_read_back(dict[tuple[int, int], int], (1, 2)),
]
sys.exit(found != [True, True, False, False, False, False])
PYTHON
