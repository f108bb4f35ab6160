#!/usr/bin/env bash
# msgspec 0.22.0 with attrs 26.1.0: a private field of an attrs class is read and never written.
#
# msgspec.json.decode requires the member "_n", and msgspec.json.schema lists it as required.
# msgspec.json.encode leaves it out, so msgspec cannot read its own output. The same field of a
# dataclass or a Struct is written.
#
# Output seen:
#   attrs      {}          refused: Object missing required field `_n`
#   dataclass  {"_n":1}    read back
#   Struct     {"_n":1}    read back
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check msgspec==0.22.0 attrs==26.1.0

"$directory/venv/bin/python" - <<'PYTHON'
import dataclasses

import attrs
import msgspec


@attrs.define
class A:
    _n: int


@dataclasses.dataclass
class D:
    _n: int


class S(msgspec.Struct):
    _n: int


def written_and_read(kind):
    written = msgspec.json.encode(msgspec.json.decode(b'{"_n": 1}', type=kind)).decode()
    try:
        msgspec.json.decode(written, type=kind)
    except msgspec.ValidationError as error:
        return written, f"refused: {error}"
    return written, "read back"


for name, kind in (("attrs", A), ("dataclass", D), ("Struct", S)):
    print(name.ljust(10), *(part.ljust(11) for part in written_and_read(kind)))

assert msgspec.json.schema(A)["$defs"]["A"]["required"] == ["_n"]
assert written_and_read(A) == ("{}", "refused: Object missing required field `_n`")
assert written_and_read(D) == written_and_read(S) == ('{"_n":1}', "read back")
PYTHON
