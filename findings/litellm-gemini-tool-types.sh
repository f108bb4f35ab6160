#!/usr/bin/env bash
# litellm 1.110.2: parameters of a tool for Gemini get other types, where the same schema as a response format is kept.
#
# get_optional_params rewrites the parameters of tools for the providers "gemini" and "vertex_ai". The items of a tuple
# become objects, so that no right tuple is admitted. The empty string in an enum becomes null beside the type "string".
# An enum of mixed types becomes an object. Integers of an enum are dropped, or made strings for gemini-3. Nothing is
# logged and no error is raised. As a response format the same schema is sent as it is.
#
# Output seen (Python 3.11), gemini-2.5-pro:
#   tuple[int, str]          {'maxItems': 2, 'minItems': 2, ..., 'type': 'array', 'items': {'type': 'object'}}
#   Literal["kg", ""]        {'enum': ['kg', None], 'title': 'Unit', 'type': 'string'}
#   Literal["auto", 1]       {'title': 'Level', 'type': 'object'}
#   Literal[1, 2]            {'title': 'Size', 'type': 'integer'}
#   gemini-3-pro-preview     {'enum': ['1', '2'], 'title': 'Size', 'type': 'integer'}
#   Right values of the type are refused by the schema of the tool, and admitted by that of the response format.
#
# Exit status: 0 if the behaviour is as described, 1 if it has changed.
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
python3 -m venv "$directory/venv"
"$directory/venv/bin/pip" install --quiet --disable-pip-version-check \
    litellm==1.110.2 pydantic==2.14.4 jsonschema==4.26.0

# The prices of models are read from the package instead of the network.
LITELLM_LOCAL_MODEL_COST_MAP=True "$directory/venv/bin/python" - <<'PYTHON'
import sys
from typing import Literal

from jsonschema import Draft202012Validator
from litellm.utils import get_optional_params
from pydantic import BaseModel


class Parcel(BaseModel):
    point: tuple[int, str]
    unit: Literal["kg", ""]
    level: Literal["auto", 1]
    size: Literal[1, 2]


schema = Parcel.model_json_schema()
values = {"point": [1, "a"], "unit": "", "level": "auto", "size": 2}


def tool_parameters(model):
    tool = {"type": "function", "function": {"name": "send", "description": "Sends.", "parameters": schema}}
    sent = get_optional_params(model=model, custom_llm_provider="gemini", tools=[tool])
    return sent["tools"][0]["function_declarations"][0]["parameters"]


response_format = {"type": "json_schema", "json_schema": {"name": "parcel", "schema": schema, "strict": True}}
sent = get_optional_params(
    model="gemini-2.5-pro", custom_llm_provider="gemini", response_format=response_format
)["response_json_schema"]

Parcel.model_validate(values)
second, third = tool_parameters("gemini-2.5-pro"), tool_parameters("gemini-3-pro-preview")
for name, value in values.items():
    print(name, second["properties"][name], "for gemini-3", third["properties"][name])
verdicts = [
    {name: Draft202012Validator(parameters["properties"][name]).is_valid(value) for name, value in values.items()}
    for parameters in (second, third, sent)
]
print("tool of gemini-2.5-pro", verdicts[0])
print("tool of gemini-3      ", verdicts[1])
print("response format       ", verdicts[2])
refused = {"point": False, "unit": False, "level": False}
expected = [refused | {"size": True}, refused | {"size": False}, dict.fromkeys(values, True)]
sys.exit(verdicts != expected or "enum" in second["properties"]["size"])
PYTHON
