"""A tool: its definition for the model, its function, and the arguments of a call."""

from __future__ import annotations

import asyncio
import contextvars
import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias

import jsonschema

from state_machines import StateMachine
from state_machines.argument_notations import INPUT, JSON
from state_machines.errors import SchemaError, has_surrogate
from state_machines.tool_calls import ToolSignature, input_schema

from ..checks import short_repr, summary
from ..errors import InvalidToolError, ToolArgumentsError, ToolSchemaError
from ..text_formats import TextFormat
from ..validation import JsonValidator
from .input_format import InputFormat, InputSyntax

# 128 is the limit of the Model Context Protocol and of Anthropic; OpenAI's is 64.
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,128}")
_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}
# Drafts in which `$ref` overrides the keywords beside it.
_DRAFTS_WITH_LONE_REFERENCES = re.compile(r"draft-0[3-7]/")


ArgumentReader: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Converts arguments for a function: to a dict of keyword arguments, or its only argument. Raises
``ValueError`` if they are invalid."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a model may call.

    Attributes:
        name: 1 to 128 ASCII letters, digits, ``_``, ``-`` and ``.``.
        description: Text for the model.
        parameters: JSON Schema of the arguments; copied. By default there are none.
        strict: OpenAI's field. Every schema is enforced here.
        function: The function to call, sync or async; ``None`` if the caller runs the tool.
        reader: Converts arguments for the function; by default they are checked with the schema
            and passed by keyword.
        input: For a custom tool, the format of its input, which is its only argument; ``None`` for
            other tools. The parameters then follow from it.
        is_described: Whether prompts describe the tool. Otherwise, a message has to.

    Raises:
        InvalidToolError: A value is invalid.
        ToolSchemaError: ``parameters`` does not describe an object.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: dict(_NO_PARAMETERS), hash=False)
    strict: bool | None = None
    function: Callable[..., Any] | None = None
    reader: ArgumentReader | None = field(default=None, repr=False, compare=False)
    input: InputFormat | None = None
    is_described: bool = True

    def __repr__(self) -> str:
        names = tuple(self.parameters.get("properties", ()))
        return summary(self, self.name, description=self.description, parameters=names)

    @classmethod
    def from_grammar(
        cls,
        name: str,
        grammar: str | TextFormat[str] | StateMachine | None = None,
        *,
        syntax: InputSyntax | None = None,
        description: str = "",
        function: Callable[[str], Any] | None = None,
    ) -> Tool:
        r"""Return a custom tool, which is called with a text, its input.

        The grammar is compiled by the first request with the tool.

        Args:
            name: The name.
            grammar: The format of the input: a ``Lark``, ``GBNF``, ``Regex`` or ``Choice``, a
                string with a grammar, or a state machine; ``None`` for free text.
            syntax: The syntax of a string: ``"lark"`` (the default), ``"regex"`` or ``"gbnf"``.
            description: Text for the model. The grammar is described to it as well.
            function: Called with the input.

        Raises:
            InvalidToolError: An argument is invalid.

        >>> tool = Tool.from_grammar("at", Regex(r"\d\d:\d\d"), function=str.strip)
        >>> tool.invoke({"input": "12:30"})
        '12:30'
        """
        try:
            input_format = InputFormat.of(grammar, syntax)
        except InvalidToolError as error:
            raise error.named(str(name)) from error
        return cls(name, description, function=function, input=input_format)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InvalidToolError(
                f"{short_repr(self.name)} is not a valid name of a tool",
                tool=self.name if isinstance(self.name, str) else None,
                hint="A name is 1 to 128 ASCII letters, digits, '_', '-' and '.'.",
            )
        for name, kind in (("description", str), ("strict", bool | None)):
            if not isinstance(getattr(self, name), kind):
                raise self._invalid(f"{name} must not be {short_repr(getattr(self, name))}")
        if has_surrogate(self.description):
            raise self._invalid("the description has a lone surrogate")
        if self.function is not None and not callable(self.function):
            raise self._invalid(f"the function is not callable: {short_repr(self.function)}")
        if self.input is not None:
            if not isinstance(self.input, InputFormat):
                raise self._invalid(
                    f"the input is no InputFormat: {short_repr(self.input)}",
                    hint="Tool.from_grammar makes a tool from a grammar.",
                )
            object.__setattr__(self, "parameters", input_schema(self.input.description))
            object.__setattr__(self, "reader", _read_input)
        object.__setattr__(self, "parameters", self._copied_parameters())
        # Raises now, not at the first call, if the parameters are no object.
        _ = self.arguments_schema

    @property
    def arguments_schema(self) -> dict[str, Any]:
        """``parameters``, restricted to objects."""
        schema = self.parameters
        kinds = schema.get("type", "object")
        if kinds == "object":
            if schema.get("type") == "object":
                return schema
        elif not isinstance(kinds, list) or "object" not in kinds:
            raise ToolSchemaError(
                f"the parameters of a tool should be an object, not of type {short_repr(kinds)}",
                tool=self.name,
                pointer="/type",
                keyword="type",
            )
        draft = schema.get("$schema")
        has_old_draft = isinstance(draft, str) and _DRAFTS_WITH_LONE_REFERENCES.search(draft)
        if "$ref" in schema and has_old_draft:
            rest = {
                key: value
                for key, value in schema.items()
                if key in {"$schema", "$id", "id", "definitions", "$defs"}
            }
            return {**rest, "type": "object", "allOf": [{"$ref": schema["$ref"]}]}
        return {**schema, "type": "object"}

    def validate(self, arguments: Mapping[str, Any]) -> Any:
        """Return ``arguments`` as Python values: keyword arguments, or an instance of the tool's
        type.

        Raises:
            ToolArgumentsError: The arguments are invalid.
        """
        if not isinstance(arguments, Mapping):
            raise ToolArgumentsError(
                f"arguments should be an object, not {short_repr(arguments)}",
                tool=self.name,
                arguments=arguments,
            )
        try:
            read = self.reader or partial(_read_json, self.arguments_schema)
            value = read(arguments)
            if self.input is not None:
                self.input.check(value)
            return value
        except ValueError as error:
            raise ToolArgumentsError(
                f"invalid arguments for {self.name!r}: {error}",
                tool=self.name,
                arguments=arguments,
            ) from error

    def parse(self, arguments: Mapping[str, Any]) -> Any:
        """Return ``arguments`` as Python values, if the tool was made from a type or a function.

        Returns:
            An instance of the tool's type, a dict of the function's keyword arguments, or the input
            of a custom tool. ``None`` for a tool with a JSON Schema only, and for arguments that
            the type's own validators refuse; :meth:`validate` raises then.
        """
        if self.reader is None:
            return None
        try:
            return self.reader(arguments)
        except ValueError:
            return None

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Validate ``arguments`` and call the function. An async function is run to its end.

        Raises:
            ToolArgumentsError: The arguments are invalid.
            InvalidToolError: The tool has no function.
            Exception: The function raised it.
        """
        function = self._function()
        result = _call(function, self.validate(arguments))
        return _run(result) if isawaitable(result) else result

    async def ainvoke(self, arguments: Mapping[str, Any]) -> Any:
        """:meth:`invoke` for event loops; a function that is not async runs on a thread."""
        function = self._function()
        value = self.validate(arguments)
        if iscoroutinefunction(function):
            result = _call(function, value)
        else:
            result = await asyncio.to_thread(_call, function, value)
        return await result if isawaitable(result) else result

    def check_schema(self) -> None:
        """Compile the schema of the parameters.

        Raises:
            ToolSchemaError: The schema is refused.
        """
        with tool_schema_errors(self):
            JSON.compile(self.arguments_schema)

    @property
    def signature(self) -> ToolSignature:
        """The name, the parameters and the compiled input.

        Raises:
            InvalidToolError: The grammar of the input is refused. The cause is the
                ``GrammarError`` or the ``PatternError``, which has the location.
        """
        try:
            machine = None if self.input is None else self.input.machine
        except InvalidToolError as error:
            raise error.named(self.name) from (error.__cause__ or error)
        return ToolSignature(self.name, self.arguments_schema, machine)

    def to_openai(self) -> dict[str, Any]:
        """Return the tool in the form of OpenAI's chat API, a new dict.

        Raises:
            InvalidToolError: The input of a custom tool is given by a state machine.
        """
        if self.input is None:
            return self.to_function()
        custom = {
            "name": self.name,
            "description": self.description,
            "format": self.input.to_openai(),
        }
        return {"type": "custom", "custom": custom}

    def to_function(self) -> dict[str, Any]:
        """Return ``{"type": "function", "function": {…}}``, a new dict.

        A custom tool is a function with the string ``input``, as chat templates know no other.
        """
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": json.loads(json.dumps(self.parameters)),
        }
        if self.strict is not None:
            function["strict"] = self.strict
        return {"type": "function", "function": function}

    def _function(self) -> Callable[..., Any]:
        if self.function is None:
            raise self._invalid("the tool has no function to call")
        return self.function

    def _copied_parameters(self) -> dict[str, Any]:
        if not isinstance(self.parameters, Mapping):
            raise self._invalid(
                f"the parameters are {type(self.parameters).__name__}, not a JSON Schema object"
            )
        try:
            text = json.dumps(dict(self.parameters), allow_nan=False, ensure_ascii=False)
            # Lone surrogates have no UTF-8 encoding, and so no tokens.
            text.encode("utf-8")
            copied: dict[str, Any] = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._invalid(f"the parameters are not JSON: {error}") from error
        return copied

    def _invalid(self, what: str, hint: str = "") -> InvalidToolError:
        return InvalidToolError(what, tool=self.name, hint=hint)


def _call(function: Callable[..., Any], value: Any) -> Any:
    return function(**value) if isinstance(value, dict) else function(value)


def _read_json(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    value = json.loads(written(arguments))
    try:
        JsonValidator(schema).validate(value)
    except jsonschema.ValidationError as error:
        place = "".join(f"[{step!r}]" for step in error.absolute_path)
        raise ValueError(f"{place}: {error.message}" if place else error.message) from error
    return value


def _read_input(arguments: Mapping[str, Any]) -> str:
    text = arguments.get(INPUT)
    if len(arguments) != 1 or not isinstance(text, str):
        raise ValueError(f"a custom tool has the argument {INPUT!r} alone, a text")
    return text


def written(arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON; raises ``ValueError`` if they have no JSON."""
    try:
        return json.dumps(arguments if isinstance(arguments, dict) else dict(arguments))
    except (TypeError, ValueError) as error:
        raise ValueError(f"the arguments are not JSON: {error}") from error


@contextmanager
def tool_schema_errors(tool: Tool, index: int | None = None) -> Iterator[None]:
    """Convert a ``SchemaError`` to a ``ToolSchemaError`` of ``tool``."""
    try:
        yield
    except ToolSchemaError:
        raise
    except SchemaError as error:
        raise ToolSchemaError(
            error.what,
            tool=tool.name,
            index=index,
            pointer=error.pointer if error.is_located else None,
            keyword=error.keyword,
            hint=error.hint,
        ) from error


def _run(awaitable: Any) -> Any:
    """Return the result of ``awaitable``, even if this thread's event loop is running."""

    async def wait() -> Any:
        return await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(wait())
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1, thread_name_prefix="tool") as thread:
        return thread.submit(context.run, asyncio.run, wait()).result()
