#!/usr/bin/env bash
# pydantic compares the max_length of a URL with the text that is read, in bytes, not with the URL.
#
# Versions: pydantic 2.14.4, Python 3.11.
#
# The parser escapes characters beyond ASCII and drops standard ports afterwards. With max_length=20
#
#   "http://a.b/ääää"         is read (19 bytes) and becomes a URL of 35 characters, which the same
#                             type refuses: "URL should have at most 20 characters"
#   "http://a.b:80/12345678"  is refused (22 bytes), although the URL http://a.b/12345678 has 19
#   "http://a.b/äääää"        is refused with "at most 20 characters", although it has 16: the
#                             characters of the message are bytes
#
# HttpUrl has max_length=2083 in the same way, and its JSON Schema has "maxLength": 2083, which
# counts characters.
#
# Exits with 0 while pydantic behaves like this.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet "pydantic==2.14.4"
cat > "$folder/probe.py" <<'PYTHON'
from typing import Annotated

from pydantic import AnyUrl, TypeAdapter, UrlConstraints, ValidationError

short = TypeAdapter(Annotated[AnyUrl, UrlConstraints(max_length=20)])


def refusal(text: str) -> str | None:
    try:
        short.validate_python(text)
    except ValidationError as error:
        return error.errors()[0]["msg"]
    return None


url = short.validate_python("http://a.b/ääää")
print(url, len(str(url)))
assert len(str(url)) == 35, url
assert refusal(str(url)) == "URL should have at most 20 characters"
for text in ("http://a.b:80/12345678", "http://a.b/äääää"):
    print(text, len(text), refusal(text))
    assert refusal(text) == "URL should have at most 20 characters"
assert refusal("http://a.b/12345678") is None
PYTHON
"$folder/env/bin/python" "$folder/probe.py"
