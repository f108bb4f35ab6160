"""LangChain's tools, tool choices and schemas in the forms of the engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pydantic

from state_machines.json_schema.closed_schema import closed_schema
from state_machines.pydantic_schemas import ClosedJsonSchema

from ..checks.texts import short_repr
from ..errors import InvalidOptionError, InvalidResponseFormatError
from ..runtime.extras import requires_extra

with requires_extra("langchain", purpose="LangChain's tools"):
    from langchain_core.exceptions import OutputParserException
    from langchain_core.output_parsers import (
        BaseGenerationOutputParser,
        JsonOutputKeyToolsParser,
        JsonOutputParser,
    )
    from langchain_core.outputs import ChatGeneration, Generation
    from langchain_core.tools import BaseTool
    from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
    from langchain_core.utils.pydantic import is_basemodel_subclass

ToolLike: TypeAlias = Mapping[str, Any] | type | Callable[..., Any] | BaseTool
"""A tool as ``bind_tools`` takes it."""

SchemaLike: TypeAlias = Mapping[str, Any] | type
"""A schema as ``with_structured_output`` takes it: a pydantic model, TypedDict or JSON Schema."""

# Members of dicts that hold the schema of a tool: OpenAI's, Anthropic's, Bedrock's.
_TOOL_KEYS = {"function", "parameters", "input_schema", "toolSpec"}


def to_openai_tool(tool: ToolLike, *, strict: bool | None = None) -> dict[str, Any]:
    """Return a tool as OpenAI's dict.

    Objects that come from Python types have ``additionalProperties: false``, since validation
    drops further properties. Those of a dict stay as they are, unless ``strict``. Custom tools stay
    as they are.
    """
    # Anthropic's tools of the type have a schema.
    if isinstance(tool, Mapping) and tool.get("type") == "custom" and "input_schema" not in tool:
        return dict(tool)
    model = tool.tool_call_schema if isinstance(tool, BaseTool) else tool
    written = dict(convert_to_openai_tool(tool))
    if written.get("type") == "custom":
        return written
    function = dict(written.get("function", {}))
    if _is_model(model):
        function["parameters"] = _closed_schema(model)
    elif "parameters" in function and (strict or not isinstance(model, Mapping)):
        function["parameters"] = closed_schema(function["parameters"])
    if strict is not None:
        function["strict"] = strict
    return {**written, "function": function} if function else written


def to_tool_choice(given: Any, tools: Sequence[Mapping[str, Any]]) -> Any:
    """Return a tool choice in any of LangChain's spellings as the engine's.

    ============================================  ================================
    LangChain                                     meaning
    ============================================  ================================
    ``None``, ``False``, ``"auto"``               the model answers or calls tools
    ``True``, ``"any"``, ``"required"``           it calls a tool
    ``"none"``                                    it answers
    a name, OpenAI's or Anthropic's dict          it calls this tool
    ============================================  ================================
    """
    types = {_definition(tool).get("name"): tool.get("type", "function") for tool in tools}
    match given:
        case None | False:
            return None
        case str(name) if name in types:
            # A dict, since a tool may be named like a mode.
            return {"type": types[name], types[name]: {"name": name}}
        case True | "any" | {"type": "any"}:
            return "required"
        case {"type": "auto" | "none" as mode}:
            return mode
        case {"type": "tool", "name": str(name)}:
            return {"type": "function", "function": {"name": name}}
    return given


def _definition(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the member with the name of a tool; the flat forms have it themselves."""
    inner = tool.get(str(tool.get("type", "function")))
    return inner if isinstance(inner, Mapping) else tool


def to_response_format(schema: SchemaLike, *, strict: bool | None = None) -> dict[str, Any]:
    """Return the response format of a schema, in OpenAI's form; closed as :func:`to_openai_tool`.

    Raises:
        InvalidResponseFormatError: LangChain knows no such schema.
    """
    if isinstance(schema, Mapping) and schema.get("type") in ("json_schema", "json_object"):
        return dict(schema)
    if _is_model(schema):
        written = _closed_schema(schema)
    elif isinstance(schema, Mapping) and not _TOOL_KEYS & schema.keys():
        written = dict(schema)
    else:
        try:
            written = convert_to_json_schema(schema)  # type: ignore[arg-type]
        except ValueError as error:
            raise InvalidResponseFormatError(
                f"{short_repr(schema)} is not a schema",
                hint="Give a pydantic model, a TypedDict, or a JSON Schema.",
            ) from error
    if not _is_model(schema) and (strict or not isinstance(schema, Mapping)):
        written = closed_schema(written)
    name = written.get("title") or getattr(schema, "__name__", "answer")
    return {"type": "json_schema", "json_schema": {"name": name, "schema": written}}


class ModelParser(BaseGenerationOutputParser[Any]):
    """Reads the JSON of an answer, or of its first tool call, as a pydantic model."""

    model: type[Any]

    def parse_result(self, result: list[Generation], *, partial: bool = False) -> Any:
        """Return the instance.

        Raises:
            OutputParserException: A validator of the model rejects the values.
        """
        text = result[0].text
        if isinstance(result[0], ChatGeneration):
            calls = getattr(result[0].message, "tool_calls", None)
            text = json.dumps(calls[0]["args"], ensure_ascii=False) if calls else text
        is_current = issubclass(self.model, pydantic.BaseModel)
        read = self.model.model_validate_json if is_current else self.model.parse_raw
        try:
            return read(text)
        except ValueError as error:
            raise OutputParserException(
                f"the output does not validate as {self.model.__name__}: {error}", llm_output=text
            ) from error


def output_parser(schema: SchemaLike | None, tool_name: str | None) -> Any:
    """Return the parser of structured output; dicts are parsed while they are streamed.

    Args:
        schema: The schema; ``None`` for any JSON object.
        tool_name: The tool that is called with the output, if that is how it is written.
    """
    if isinstance(schema, type) and is_basemodel_subclass(schema):
        return ModelParser(model=schema)
    if tool_name is not None:
        return JsonOutputKeyToolsParser(key_name=tool_name, first_tool_only=True)
    return JsonOutputParser()


def check_method(method: str, schema: SchemaLike | None) -> None:
    """Raise ``InvalidOptionError`` for an unknown method, or one that needs a schema."""
    if method not in ("json_schema", "function_calling", "json_mode"):
        raise InvalidOptionError(
            f"there is no method {short_repr(method)}",
            option="method",
            hint="Known are 'json_schema', 'function_calling' and 'json_mode'.",
        )
    if schema is None and method != "json_mode":
        raise InvalidOptionError(
            f"the method {method!r} needs a schema",
            option="schema",
            hint="Without a schema, 'json_mode' gives any JSON object.",
        )


def _is_model(schema: Any) -> bool:
    return isinstance(schema, type) and issubclass(schema, pydantic.BaseModel)


def _closed_schema(model: Any) -> dict[str, Any]:
    return pydantic.TypeAdapter(model).json_schema(schema_generator=ClosedJsonSchema)
