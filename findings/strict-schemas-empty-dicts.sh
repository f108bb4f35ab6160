#!/usr/bin/env bash
# Three SDKs make of `dict[str, int]` an object without members, where they rewrite a schema for strict output.
#
# Versions: anthropic 2.14.0, pydantic-ai-slim 2.68.0, langchain-core 1.8.3, pydantic 2.14.4.
#
# Strict output wants "additionalProperties": false for objects. The schema of a dict has the type of its values there.
# It is replaced by false, without an error and without a note in the description, so {} is the one value that a
# constrained answer can have. pydantic then reads {} as a right dict. With min_length=1 an answer that keeps to the
# schema is always refused. anthropic rewrites every response format, pydantic-ai and langchain-core rewrite schemas
# with strict=True. openai 3.57.0 leaves the schema of the values in place.
#
# Output seen (Python 3.11), for the field `scores`:
#   pydantic           {"scores": {}} True   {"scores": {"ann": 3}} True
#   anthropic          {"scores": {}} True   {"scores": {"ann": 3}} False
#   pydantic-ai        {"scores": {}} True   {"scores": {"ann": 3}} False
#   langchain-core     {"scores": {}} True   {"scores": {"ann": 3}} False
#   openai             {"scores": {}} True   {"scores": {"ann": 3}} True
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check \
    anthropic==2.14.0 openai==3.57.0 pydantic-ai-slim==2.68.0 langchain-core==1.8.3 pydantic==2.14.4 jsonschema==4.26.0

"$directory/venv/bin/python" - <<'PYTHON'
import sys

from anthropic import transform_schema
from jsonschema import Draft202012Validator
from langchain_core.utils.function_calling import convert_to_openai_function
from openai import pydantic_function_tool
from pydantic import BaseModel
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer


class Game(BaseModel):
    scores: dict[str, int]


schemas = {
    "pydantic": Game.model_json_schema(),
    "anthropic": transform_schema(Game),
    "pydantic-ai": OpenAIJsonSchemaTransformer(Game.model_json_schema(), strict=True).walk(),
    "langchain-core": convert_to_openai_function(Game, strict=True)["parameters"],
    "openai": pydantic_function_tool(Game)["function"]["parameters"],
}
values = [{"scores": {}}, {"scores": {"ann": 3}}]
found = {}
for name, schema in schemas.items():
    found[name] = [Draft202012Validator(schema).is_valid(value) for value in values]
    print(f"{name:18}", *(f"{value} {verdict} " for value, verdict in zip(values, found[name])))
    print(" ", schema["properties"]["scores"])
expected = dict.fromkeys(schemas, [True, False]) | {"pydantic": [True, True], "openai": [True, True]}
sys.exit(found != expected)
PYTHON
