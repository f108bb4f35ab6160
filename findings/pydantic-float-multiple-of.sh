#!/usr/bin/env bash
# pydantic 2.14.4 (pydantic-core 2.50.5): `multiple_of` of a float has an absolute tolerance of 1e-9.
#
# A float x is accepted if |x - round(x / step) * step| <= 1e-9. From 2**23 on, neighbouring doubles
# differ by more than that. There, decimal multiples of 0.1 are refused at random, although the text
# is an exact multiple and so is the nearest double, as well as doubles allow.
# Seen: 4194303.7 and 8412472.6 are accepted, 8412472.7 and 24557874.4 are refused.
# Also: for steps up to 1e-9 every small number is accepted, such as 2.5e-10 for multiple_of=1e-9.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pydantic==2.14.4
"$folder/venv/bin/python" - <<'PY'
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError


def accepts(step: float, text: str) -> bool:
    try:
        TypeAdapter(Annotated[float, Field(multiple_of=step)]).validate_json(text)
    except ValidationError:
        return False
    return True


seen = {
    (0.1, "4194303.7"): True,
    (0.1, "8412472.6"): True,
    (0.1, "8412472.7"): False,
    (0.1, "24557874.4"): False,
    (1e-9, "2.5e-10"): True,
}
for (step, text), expected in seen.items():
    found = accepts(step, text)
    print(f"multiple_of={step} {'accepts' if found else 'refuses'} {text}")
    assert found == expected, (step, text)
PY
