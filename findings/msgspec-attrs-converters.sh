#!/usr/bin/env bash
# msgspec 0.22.0 with attrs 26.1.0: of an attrs class, validators run and converters do not.
#
# attrs converts a value and validates the result. msgspec.json.decode validates the value as it is
# in the JSON: a text that the constructor reads is refused, and a value that it refuses is
# accepted. The alias of a field has no effect either.
#
# Output seen:
#   A(half=12)                      -> A(half=6)
#   decode {"half": 12}             -> refused: 'half' must be < 10: 12
#   decode {"half": 9}              -> A(half=9)
set -euo pipefail

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check msgspec==0.22.0 attrs==26.1.0

"$directory/venv/bin/python" - <<'PYTHON'
import attrs
import msgspec


@attrs.define
class A:
    half: int = attrs.field(converter=lambda whole: whole // 2, validator=attrs.validators.lt(10))


@attrs.define
class Aliased:
    n: int = attrs.field(alias="number")


def decoded(text, kind=A):
    try:
        return repr(msgspec.json.decode(text, type=kind))
    except msgspec.ValidationError as error:
        return f"refused: {error}"


print("A(half=12)".ljust(31), "->", A(half=12))
for text in ('{"half": 12}', '{"half": 9}'):
    print(f"decode {text}".ljust(31), "->", decoded(text))

assert A(half=12).half == 6
assert decoded('{"half": 12}') == "refused: 'half' must be < 10: 12"
assert decoded('{"half": 9}') == "A(half=9)"
assert decoded('{"n": 1}', Aliased) == "Aliased(n=1)"
assert decoded('{"number": 1}', Aliased) == "refused: Object missing required field `n`"
PYTHON
