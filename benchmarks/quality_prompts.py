"""Prompts: how a request describes the form of the answer, besides the question.

The description precedes the question. It is the text that the engine writes for its option
``schema_in_prompt``, so that all arms read the same tokens.
"""

from __future__ import annotations

import json
import re
from typing import Literal, TypeAlias, get_args

from quality_tasks import Record

from proxy_engine.conversation.schema_text import SchemaInPrompt, schema_text
from proxy_engine.extraction.inputs import RecordContent
from proxy_engine.extraction.records import write_prompt
from proxy_engine.extraction.schemas import written_form

__all__ = ["ENGINE_FORMS", "PROMPT_VARIANTS", "PromptVariant", "prompt_of", "question_of"]

PromptVariant: TypeAlias = Literal[
    "task", "bare", "text", "names", "instruction", "outline", "schema", "example"
]
"""``"task"``: the question alone. ``"bare"``: the question without its request for JSON.
``"text"``: the text of an extraction alone. ``"names"``: the same behind a line that names the
fields; ``"instruction"``: also the form of dates, as the default of ``extract``.
Otherwise an outline of the schema, the JSON Schema, or an answer of the same form with other values
precedes the question."""

PROMPT_VARIANTS: tuple[PromptVariant, ...] = get_args(PromptVariant)

ENGINE_FORMS: dict[PromptVariant, SchemaInPrompt] = {
    "task": "off",
    "bare": "off",
    "text": "off",
    "names": "off",
    "instruction": "off",
    "outline": "outline",
    "schema": "json_schema",
    "example": "off",
}
"""The value of ``schema_in_prompt`` with which the engine writes the description itself."""


_REQUEST_FOR_JSON = re.compile(
    r"\n\n(State it|Give) as JSON: .*| Answer as JSON.*| as a JSON array\. .*|, as JSON(?=:)"
)

_REQUEST_FOR_FIELDS = re.compile(r"\n\nExtract from this text, as JSON: ")


def prompt_of(record: Record, variant: PromptVariant) -> str:
    """Return the user's message with the description of the form."""
    if variant == "example":
        form = f"Answer with JSON in the form of this example:\n{json.dumps(record.example)}"
    elif variant in ("text", "names", "instruction"):
        text, *_ = _REQUEST_FOR_FIELDS.split(record.question)
        if variant == "text":
            return text
        forms = {
            name: written_form(schema, record.schema) if variant == "instruction" else ""
            for name, schema in record.schema["properties"].items()
        }
        return str(write_prompt(None, forms, True, None, RecordContent(text)))
    elif variant == "bare":
        return _REQUEST_FOR_JSON.sub("", record.question)
    else:
        form = schema_text([("answer", record.schema)], ENGINE_FORMS[variant])
    return f"{form}\n\n{record.question}" if form else record.question


def question_of(record: Record, variant: PromptVariant) -> str:
    """Return the user's message without what the engine itself adds to it."""
    return prompt_of(record, variant) if ENGINE_FORMS[variant] == "off" else record.question
