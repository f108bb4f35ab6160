#!/usr/bin/env bash
# Python's re: search ignores a scoped flag (?a:...) or (?u:...) on the first class of a pattern.
#
# Versions: Python 3.11.7, 3.12.1 and 3.13.0; pydantic 2.14.4, which searches.
#
# "(?a:\W)" is one character that is no ASCII word character, such as "ÿ". re.match and re.fullmatch find
# it; re.search does not. The first class of a pattern is also compiled to a set with which search skips
# positions, and this set is compiled with the flags of the whole pattern. The same class behind an
# optional part is found. With pydantic, a string type with this pattern refuses a right text.
#
# Output seen:
#   (?a:\W) match True search False
#   (?a:\D)x match True search False
#   q?(?a:\W) match True search True
#   pydantic ValidationError
# Right: True for each, and pydantic reads the text.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pydantic==2.14.4
cat >search.py <<'EOF'
import re
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

for pattern, text in [(r"(?a:\W)", "ÿ"), (r"(?a:\D)x", "\u0663x"), (r"q?(?a:\W)", "ÿ")]:
    compiled = re.compile(pattern)
    print(pattern, "match", bool(compiled.match(text)), "search", bool(compiled.search(text)))
try:
    print(TypeAdapter(Annotated[str, Field(pattern=re.compile(r"(?a:\W)"))]).validate_python("ÿ"))
except ValidationError:
    print("pydantic ValidationError")
EOF
venv/bin/python search.py | tee output
diff output - <<'EOF'
(?a:\W) match True search False
(?a:\D)x match True search False
q?(?a:\W) match True search True
pydantic ValidationError
EOF
