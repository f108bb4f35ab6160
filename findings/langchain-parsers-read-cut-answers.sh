#!/usr/bin/env bash
# langchain-core 1.8.3: parse() of JsonOutputParser and PydanticOutputParser reads an answer that was cut off.
#
# Both read the text with the parser for streamed JSON, which closes what is open. An answer that ends at the token
# limit is thus a value without an error: a total of 1250 is 12, a name is its beginning, a list lacks its end, and
# members with a default are left out. The option partial of parse_result is False here, for which the documentation
# promises "the full JSON object", and an OutputParserException otherwise. pydantic refuses the cut texts.
#
# Output seen (Python 3.11): text, JsonOutputParser, PydanticOutputParser, pydantic
#   {"name": "Ada Lovelace", "total": 1250}  {'name': 'Ada Lovelace', 'total': 1250}  Ada Lovelace 1250  read
#   {"name": "Ada Lovelace", "total": 12     {'name': 'Ada Lovelace', 'total': 12}    Ada Lovelace 12    refused
#   {"name": "Ada Lovelace", "total": 1250.  {'name': 'Ada Lovelace', 'total': 1250}  Ada Lovelace 1250  refused
#   {"total": 1250, "name": "Ad              {'total': 1250, 'name': 'Ad'}            Ad 1250            refused
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check langchain-core==1.8.3 pydantic==2.14.4

"$directory/venv/bin/python" - <<'PYTHON'
import sys

from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from pydantic import BaseModel, ValidationError


class Invoice(BaseModel):
    name: str
    total: int


def is_read(text):
    try:
        Invoice.model_validate_json(text)
    except ValidationError:
        return False
    return True


cases = [
    ('{"name": "Ada Lovelace", "total": 1250}', "Ada Lovelace", 1250, True),
    ('{"name": "Ada Lovelace", "total": 12', "Ada Lovelace", 12, False),
    ('{"name": "Ada Lovelace", "total": 1250.', "Ada Lovelace", 1250, False),
    ('{"total": 1250, "name": "Ad', "Ad", 1250, False),
]
changed = False
for text, name, total, whole in cases:
    value = JsonOutputParser().parse(text)
    invoice = PydanticOutputParser(pydantic_object=Invoice).parse(text)
    found = value, invoice, is_read(text)
    verdict = "read" if found[2] else "refused"
    print(text.ljust(40), str(value).ljust(40), f"{invoice.name} {invoice.total}".ljust(18), verdict)
    changed |= found != ({"name": name, "total": total}, Invoice(name=name, total=total), whole)
sys.exit(changed)
PYTHON
