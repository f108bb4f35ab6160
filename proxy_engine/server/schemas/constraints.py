"""Constraints on the text of an answer, besides OpenAI's ``response_format``: vLLM's fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import Field

from state_machines import ChoiceStateMachine, GrammarStateMachine, RegexStateMachine

from ...answers.response_format import MachineSource
from ..errors import ApiError
from .request_model import RequestModel


def is_free(response_format: Any) -> bool:
    """Return whether a response format leaves the text free."""
    return response_format is None or response_format == {"type": "text"}


class StructuredOutputs(RequestModel):
    """vLLM's object of constraints. At most one constraint may be given.

    The members that begin with ``disable`` have no effect: there is one backend, and the whitespace
    of JSON is that of ``json.dumps``.
    """

    json_: dict[str, Any] | bool | str | None = Field(default=None, alias="json")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: dict[str, Any] | str | None = None
    disable_fallback: bool | None = None
    disable_any_whitespace: bool | None = None


class ConstrainedRequest(RequestModel):
    """The base of requests with fields that constrain the text."""

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
        given = [*self._given()]
        has_format = not is_free(response_format)
        if len(given) + has_format > 1:
            names = [name for name, _, _ in given] + ([format_name] if has_format else [])
            raise ApiError(
                400,
                f"{', '.join(names)} constrain the same answer; give one of them",
                code="conflicting_constraints",
                param=names[0],
            )
        if not given:
            return format_name, _with_inner_schema(response_format)
        name, value, convert = given[0]
        return name, convert(name, value)

    def is_constrained(self, response_format: Any) -> bool:
        """Return whether the response format or a field constrains the text."""
        return not is_free(response_format) or any(True for _ in self._given())

    def _given(self) -> Iterator[tuple[str, Any, Callable[[str, Any], Any]]]:
        """Yield the name, the value and the converter of each constraint that is given."""
        models: list[tuple[str, RequestModel | None]] = [
            ("", self),
            ("structured_outputs.", getattr(self, "structured_outputs", None)),
        ]
        for prefix, model in models:
            for name, convert in _CONVERTERS.items():
                value = getattr(model, name, None)
                # `json_object: false` is no constraint, but `guided_json: false` is a schema.
                if value is not None and (value or name != "json_object"):
                    yield prefix + name.removesuffix("_"), value, convert


class TextConstraints(ConstrainedRequest):
    """Extensions that constrain the text, except by JSON Schemas. At most one may be given."""

    regex: str | None = Field(default=None, description="Extension: an ECMA-262 pattern.")
    choice: list[str] | None = Field(default=None, description="Extension: one of these texts.")
    grammar: str | None = Field(
        default=None,
        description="Extension: a grammar, in GBNF with the rule `root` or in Lark with "
        "the rule `start`. A text with `name ::=` is GBNF.",
    )
    ebnf: str | None = Field(default=None, description="Extension: a grammar in GBNF.")
    guided_regex: str | None = Field(default=None, description="Synonym of `regex`.")
    guided_choice: list[str] | None = Field(default=None, description="Synonym of `choice`.")
    guided_grammar: str | None = Field(default=None, description="Synonym of `grammar`.")


class Constraints(TextConstraints):
    """Extensions that constrain the text. At most one may be given, without ``response_format``."""

    json_schema: dict[str, Any] | bool | str | None = Field(
        default=None, description="Extension: a JSON Schema, or its text."
    )
    guided_json: dict[str, Any] | bool | str | None = Field(
        default=None, description="Synonym of `json_schema`."
    )
    structural_tag: dict[str, Any] | str | None = Field(
        default=None, description="Extension: a structural tag, or its JSON text."
    )
    structured_outputs: StructuredOutputs | None = Field(
        default=None, description="Extension: vLLM's object of constraints."
    )


def _with_inner_schema(response_format: Any) -> Any:
    """Return a format with its schema in the inner object ``json_schema``.

    llama.cpp and others write the schema beside the type, also of ``json_object``.
    """
    match response_format:
        case {"type": "json_object" | "json_schema", "schema": dict() | bool(), **rest} if (
            "json_schema" not in rest
        ):
            inner = {key: value for key, value in response_format.items() if key != "type"}
            return {"type": "json_schema", "json_schema": inner}
    return response_format


def _regex(name: str, pattern: str) -> MachineSource:
    return MachineSource(RegexStateMachine, pattern)


def _choice(name: str, texts: list[str]) -> MachineSource:
    if not texts:
        raise ApiError(400, "the list of choices is empty", code="invalid_value", param=name)
    return MachineSource(ChoiceStateMachine, tuple(texts))


def _grammar(name: str, grammar: str) -> MachineSource:
    return MachineSource(GrammarStateMachine.from_text, grammar)


def _gbnf(name: str, grammar: str) -> MachineSource:
    return MachineSource(GrammarStateMachine.from_gbnf, grammar)


def _schema(name: str, schema: Any) -> Any:
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
            if not isinstance(schema, dict | bool):
                raise ValueError("a schema is an object or a boolean")
        except (ValueError, RecursionError) as error:
            raise ApiError(
                400, f"the schema is not JSON: {error}", code="invalid_schema", param=name
            ) from error
    return {"type": "json_schema", "json_schema": {"schema": schema}}


def _structural_tag(name: str, tag: Any) -> Any:
    if isinstance(tag, str):
        try:
            tag = json.loads(tag)
        except (ValueError, RecursionError) as error:
            raise ApiError(
                400,
                f"the structural tag is not JSON: {error}",
                code="invalid_structural_tag",
                param=name,
            ) from error
    if not isinstance(tag, dict) or tag.get("type", "structural_tag") != "structural_tag":
        raise ApiError(
            400,
            "a structural tag is an object of the type 'structural_tag'",
            code="invalid_structural_tag",
            param=name,
        )
    return {**tag, "type": "structural_tag"}


def _json_object(name: str, value: bool) -> dict[str, str]:
    return {"type": "json_object"}


_CONVERTERS: dict[str, Callable[[str, Any], Any]] = {
    "regex": _regex,
    "guided_regex": _regex,
    "choice": _choice,
    "guided_choice": _choice,
    "guided_json": _schema,
    "json_": _schema,
    "json_schema": _schema,
    "json_object": _json_object,
    "structural_tag": _structural_tag,
    "grammar": _grammar,
    "ebnf": _gbnf,
    "guided_grammar": _grammar,
}
