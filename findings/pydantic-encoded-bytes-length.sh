#!/usr/bin/env bash
# pydantic 2.14.4: the JSON Schema of encoded bytes bounds the text by the number of the bytes behind it.
#
# `min_length` and `max_length` of Base64Bytes, Base64Str, and of bytes with val_json_bytes="base64" or "hex" count
# decoded bytes. The JSON Schema has the same numbers as minLength and maxLength, which count the characters of the
# text: four for three bytes in base64, six in hex. For a key of exactly 32 bytes the schema admits texts of 32
# characters, and the type reads texts of 44: no text satisfies both, and the type's own output is refused by its
# schema. msgspec 0.23.0 converts the bounds.
#
# Output seen (Python 3.11), for three bytes:
#   Base64Bytes    "YWJj"    minLength 3 maxLength 3  type True  schema False
#   bytes, base64  "YWJj"    minLength 3 maxLength 3  type True  schema False
#   bytes, hex     "616263"  minLength 3 maxLength 3  type True  schema False
#   msgspec bytes  "YWJj"    minLength 4 maxLength 4  type True  schema True
# Of all texts of three characters of base64, Base64Bytes reads 0.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check \
    pydantic==2.14.4 msgspec==0.23.0 jsonschema==4.26.0

"$directory/venv/bin/python" - <<'PYTHON'
import itertools
import json
import string
import sys
from typing import Annotated

import msgspec
from jsonschema import Draft202012Validator
from pydantic import Base64Bytes, ConfigDict, Field, TypeAdapter, ValidationError

three = Field(min_length=3, max_length=3)
base64 = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")
hexadecimal = ConfigDict(val_json_bytes="hex", ser_json_bytes="hex")
adapters = {
    "Base64Bytes": TypeAdapter(Annotated[Base64Bytes, three]),
    "bytes, base64": TypeAdapter(Annotated[bytes, three], config=base64),
    "bytes, hex": TypeAdapter(Annotated[bytes, three], config=hexadecimal),
}


def reads(adapter, text):
    try:
        adapter.validate_json(text)
    except ValidationError:
        return False
    return True


found = []


def report(name, text, schema, is_read):
    is_admitted = Draft202012Validator(schema).is_valid(json.loads(text))
    print(f"{name:14}", text, schema["minLength"], schema["maxLength"], "type", is_read, "schema", is_admitted)
    found.append((is_read, is_admitted))


for name, adapter in adapters.items():
    text = adapter.dump_json(b"abc").decode()
    report(name, text, adapter.json_schema(), reads(adapter, text))

kind = Annotated[bytes, msgspec.Meta(min_length=3, max_length=3)]
text = msgspec.json.encode(b"abc").decode()
report("msgspec bytes", text, msgspec.json.schema(kind), msgspec.json.decode(text, type=kind) == b"abc")

letters = itertools.product(string.ascii_letters + string.digits + "+/=", repeat=3)
read = sum(reads(adapters["Base64Bytes"], json.dumps("".join(triple))) for triple in letters)
print("texts of three characters read:", read)
sys.exit(found != [(True, False)] * 3 + [(True, True)] or read != 0)
PYTHON
