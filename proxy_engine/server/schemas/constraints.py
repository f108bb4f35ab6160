"""Constraints on the text of an answer, besides OpenAI's ``response_format``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field

from ...text_formats import Choice, Regex, grammar_format
from ..errors import ApiError, conflict
from .request_model import RequestModel


def is_free(response_format: Any) -> bool:
    """Return whether a response format leaves the text free."""
    return response_format is None or response_format == {"type": "text"}


class TextConstraints(RequestModel):
    """Extensions that constrain the text, except by JSON Schemas. At most one may be given."""

    regex: str | None = Field(default=None, description="Extension: an ECMA-262 pattern.")
    choice: list[str] | None = Field(default=None, description="Extension: one of these texts.")
    grammar: str | None = Field(
        default=None,
        description="Extension: a grammar, in GBNF with the rule `root` or in Lark with "
        "the rule `start`. A text with `name ::=` is GBNF.",
    )

    def constraint(
        self, response_format: Any, format_name: str = "response_format"
    ) -> tuple[str, Any]:
        """Return the name of the field that constrains the answer, and the engine's argument.

        Nothing is compiled here.

        Args:
            response_format: OpenAI's response format, if the request has one.
            format_name: The endpoint's name for it.

        Raises:
            ApiError: Several fields constrain the answer, or one is malformed.
        """
        fields = self._constraints()
        names = [self.given_name(field) for field in fields]
        if not is_free(response_format):
            names.append(format_name)
        if len(names) > 1:
            message = f"{', '.join(names)} constrain the same answer; give one of them"
            raise conflict(message, names[0])
        for field, value in fields.items():
            return names[0], _CONVERTERS[field](names[0], value)
        return format_name, _with_inner_schema(response_format)

    def is_constrained(self, response_format: Any) -> bool:
        """Return whether the response format or a field constrains the text."""
        return not is_free(response_format) or bool(self._constraints())

    def _constraints(self) -> dict[str, Any]:
        values = {name: getattr(self, name, None) for name in _CONVERTERS}
        return {name: value for name, value in values.items() if value is not None}


class Constraints(TextConstraints):
    """Extensions that constrain the text. At most one may be given, without ``response_format``."""

    json_schema: dict[str, Any] | bool | str | None = Field(
        default=None, description="Extension: a JSON Schema, or its text."
    )
    structural_tag: dict[str, Any] | str | None = Field(
        default=None, description="Extension: a structural tag, or its JSON text."
    )


def _with_inner_schema(response_format: Any) -> Any:
    """Return a format with its schema in the inner object ``json_schema``.

    llama.cpp and others write the schema beside the type, also of ``json_object``, and OpenAI's
    responses do.
    """
    match response_format:
        case {"type": "json_object" | "json_schema", "schema": dict() | bool(), **rest} if (
            "json_schema" not in rest
        ):
            inner = {key: value for key, value in response_format.items() if key != "type"}
            return {"type": "json_schema", "json_schema": inner}
    return response_format


def _choice(name: str, texts: list[str]) -> Choice:
    if not texts:
        raise ApiError(400, "the list of choices is empty", code="invalid_value", param=name)
    return Choice(texts)


def _schema(name: str, schema: Any) -> Any:
    schema = _parsed(name, schema, "invalid_schema")
    if not isinstance(schema, dict | bool):
        raise ApiError(400, "a schema is an object or a Boolean", code="invalid_schema", param=name)
    return {"type": "json_schema", "json_schema": {"schema": schema}}


def _structural_tag(name: str, tag: Any) -> Any:
    tag = _parsed(name, tag, "invalid_structural_tag")
    if not isinstance(tag, dict) or tag.get("type", "structural_tag") != "structural_tag":
        raise ApiError(
            400,
            "a structural tag is an object of the type 'structural_tag'",
            code="invalid_structural_tag",
            param=name,
        )
    return {**tag, "type": "structural_tag"}


def _parsed(name: str, value: Any, code: str) -> Any:
    """Return the JSON value of a text; other values as they are."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"{name} is not JSON: {error}", code=code, param=name) from error


_CONVERTERS: Mapping[str, Callable[[str, Any], Any]] = {
    "regex": lambda name, pattern: Regex(pattern),
    "choice": _choice,
    "json_schema": _schema,
    "structural_tag": _structural_tag,
    "grammar": lambda name, text: grammar_format(text),
}
