"""The settings, tools and output of a pydantic-ai request as arguments of the engine."""

from __future__ import annotations

from typing import Any, cast

from state_machines.json_schema.closed_schema import closed_schema

from ..engine.arguments import RequestArguments
from ..options.overrides import OptionOverrides
from ..runtime.extras import requires_extra

with requires_extra("pydantic-ai", purpose="ProxyEngineModel"):
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings, ToolOrOutput
    from pydantic_ai.tools import ToolDefinition

_OPTIONS = (
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "parallel_tool_calls",
)
"""Settings that the engine has under the same names."""


class ProxyEngineModelSettings(ModelSettings, total=False):
    """Settings of ``ProxyEngineModel``."""

    proxy_engine_options: OptionOverrides
    """Fields of ``GenerationOptions``. They take precedence over the other settings."""


class EngineArguments(RequestArguments, total=False):
    """The keyword arguments of ``InferenceEngine.agenerate``."""

    response_format: dict[str, Any]


def request_arguments(
    settings: ModelSettings | None, parameters: ModelRequestParameters
) -> EngineArguments:
    """Return the engine's arguments for a request that ``Model.prepare_request`` has prepared.

    Raises:
        UserError: The tool choice requires a call, and no tool may be called.
    """
    given: dict[str, Any] = dict(settings or {})
    options = {name: given[name] for name in _OPTIONS if given.get(name) is not None}
    arguments = cast(EngineArguments, options)
    tools = [*parameters.declared_function_tools, *parameters.output_tools]
    allowed, is_required = _allowed_tools(given.get("tool_choice"), parameters)
    if tools:
        # Tools that may not be called stay in the prompt, so that a cached prompt remains valid.
        arguments["tools"] = [_tool(tool) for tool in tools]
        arguments["tool_choice"] = _tool_choice(allowed, is_required)
        if allowed and {*allowed} <= {tool.name for tool in parameters.output_tools}:
            # The first call ends the run.
            arguments["max_tool_calls"] = 1
    if parameters.output_object is not None:
        schema = closed_schema(parameters.output_object.json_schema)
        arguments["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    elif not is_required:
        # Other answers have no free text that a string could end.
        arguments["stop"] = given.get("stop_sequences")
    if parameters.thinking is not None:
        arguments["reasoning"] = parameters.thinking is not False
    arguments.update(given.get("proxy_engine_options", {}))
    return arguments


def _allowed_tools(given: Any, parameters: ModelRequestParameters) -> tuple[list[str], bool]:
    """Return the names of the tools that may be called, and whether one must be.

    ``given`` is the setting ``tool_choice``, which is about function tools unless it is a list.
    """
    functions = [tool.name for tool in parameters.declared_function_tools]
    outputs = [tool.name for tool in parameters.output_tools]
    is_required = not parameters.allow_text_output
    match given:
        case None | "auto":
            allowed = functions + outputs
        case "none" | []:
            allowed = outputs
        case "required":
            allowed, is_required = functions, True
        case ToolOrOutput(function_tools=names):
            allowed = [name for name in functions if name in names] + outputs
        case _:
            allowed = [name for name in functions + outputs if name in given]
            is_required = True
    if is_required and not allowed:
        raise UserError(f"tool_choice {given!r} requires a call, and permits none of the tools")
    return allowed, is_required


def _tool_choice(allowed: list[str], is_required: bool) -> Any:
    if not allowed:
        return "none"
    return {
        "type": "allowed_tools",
        "mode": "required" if is_required else "auto",
        "tools": [{"type": "function", "name": name} for name in allowed],
    }


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description or "",
        "parameters": closed_schema(tool.parameters_json_schema),
    }
