r"""Calls that a model writes as JSON in its text, in every tool format.

Models with little training for tools answer with a JSON object that names the tool, at the start
of the answer or of a line, or in a Markdown fence::

    [fence] [`[`] {"name": "weather", "arguments": {"city": "Oslo"}} [`]`] [fence]

The spellings of the object::

    {"name": NAME, "arguments": …}      also "function" or "tool" in place of "name",
                                        and "type": "function" in front of it
    {"function": {"name": NAME, "arguments": …}}
    "parameters", "args" or "input" in place of "arguments"

Such an object is a call once the name of a tool and the key of the arguments are written. Until
then it may be text. The arguments are an object that the schema of the tool admits. They are
compiled when the first call begins, unless the model's own format writes the same JSON.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

from state_machines.argument_notations import JSON
from state_machines.grammar.boolean import intersection
from state_machines.grammar.encoding import RAW, encoded
from state_machines.grammar.lazy import reference
from state_machines.grammar.node import Node
from state_machines.grammar.nodes import concatenation, literal, optional, union
from state_machines.grammar.text_languages import after_text, word_language
from state_machines.grammar.until import text_without
from state_machines.machine import StateMachine
from state_machines.regex import compile_pattern
from state_machines.root.parts import (
    Choice,
    DistinctSubState,
    DistinctValue,
    LineStart,
    Part,
    Repeat,
    Series,
    leaves,
)
from state_machines.tool_calls.call import CALL, CallArguments, CallLayout, CallStart, ToolSignature

CallsInText: TypeAlias = Literal["off", "start", "lines"]
"""Where JSON in free text is a call: nowhere, in place of the text, or also after lines of it."""

_INDENT = "[ \\t]{0,16}"
_SPACE = f"(?: |\\r?\\n{_INDENT})?"
"""White space between two tokens of JSON: none, a space, or a line feed and an indentation."""

_TYPE = f'(?:"type"{_SPACE}:{_SPACE}"function"{_SPACE},{_SPACE})?'
_FLAT = f'{_SPACE}{_TYPE}"(?:name|function|tool)"{_SPACE}:{_SPACE}"'
_NESTED = f'{_SPACE}{_TYPE}"function"{_SPACE}:{_SPACE}\\{{{_SPACE}"name"{_SPACE}:{_SPACE}"'
_OBJECTS = ((_FLAT, f"{_SPACE}\\}}"), (_NESTED, f"{_SPACE}\\}}{_SPACE}\\}}"))
"""What stands between the brace of an object and the tool's name, and behind the arguments."""

_FENCE = f"{_INDENT}(?:```[A-Za-z_]{{0,20}}[ \\t]{{0,4}}\\r?\\n{_INDENT})+"
_FENCE_END = "\\r?\\n```"
_KEY = f'"{_SPACE},{_SPACE}"(?:arguments|parameters|args|input)"{_SPACE}:'
"""The text between a tool's name and its arguments."""

_LETTERS = re.compile(r'[A-Za-z_\s`{}\[\]":,]+')
"""Texts that may occur before a tool's name, or between the name and the arguments."""

_SPANNING = re.compile(r"[^{\[]*\s[^{\[]*[{\[]")
"""Texts that may begin before the first bracket of a call, and end behind it."""

_HEAD = re.compile(rf'((?:[^"\\]|\\.)*){_KEY} ?(?=\{{)')
"""The text of a call up to its arguments."""

_serial_numbers = itertools.count()


@dataclass(frozen=True, eq=False)
class CallOpening(CallLayout, LineStart):
    """The text before the tool's name. Its headings end with the key of the arguments."""


@dataclass(frozen=True, eq=False)
class CallClosing(CallLayout):
    """The text after the arguments."""


@dataclass(frozen=True, eq=False)
class NamedArguments(DistinctSubState):
    """The name of a tool, the key of the arguments, and the arguments.

    A single part, so that a composition has as many parts for a hundred tools as for one.

    Attributes:
        arguments: The arguments by the name of their tool.
        keys: What stands between a name and the arguments, over code points.
    """

    _: KW_ONLY
    arguments: Mapping[str, CallArguments]
    keys: Node

    @property
    def has_values(self) -> bool:
        """Whether the text has values of a JSON Schema."""
        return True

    @cached_property
    def headings(self) -> Node:
        """The names, each with the key of the arguments, over code points."""
        return concatenation(word_language(map(_in_json, self.arguments)), self.keys)

    @cached_property
    def _machine(self) -> StateMachine:
        # Most answers have no such call, and the arguments of most tools are never written.
        return StateMachine(reference(("NamedArguments", next(_serial_numbers)), self._calls))

    def _calls(self) -> Node:
        number = next(_serial_numbers)
        return union(
            self._call(
                name,
                reference(("NamedArguments", number, name), partial(_language, arguments)),
            )
            for name, arguments in self.arguments.items()
        )

    def machine(self) -> StateMachine:
        """Return the machine of the calls."""
        return self._machine

    def _call(self, name: str, arguments: Node) -> Node:
        return concatenation(literal(_in_json(name).encode()), self._key, arguments)

    @cached_property
    def _key(self) -> Node:
        return concatenation(encoded(self.keys, RAW), optional(literal(b" ")))

    def split(self, text: str) -> tuple[CallStart, CallArguments, str] | None:
        """Return the text up to the arguments as a part, the arguments, and their text so far.

        ``None`` if the arguments have not begun.
        """
        head = _HEAD.match(text)
        if head is None:
            return None
        arguments = self.arguments[_name(head)]
        start = CallStart(CALL, head[0], tool=arguments.tool)
        return start, arguments, text[head.end() :]

    def parse(self, text: str) -> Any:
        """Return the name and the arguments."""
        found = self.split(text)
        if found is None:
            raise ValueError("the arguments are missing")
        return found[0].tool.name, found[1].parse(found[2])

    @property
    def kind(self) -> str:
        """The calls of all tools are of one kind."""
        return CALL

    @property
    def excluded(self) -> Iterator[DistinctValue]:
        """The excluded calls of all tools."""
        for name, arguments in self.arguments.items():
            for value in arguments.excluded:
                yield DistinctValue(CALL, json.dumps([name, value.value]))

    def value_of(self, text: str) -> DistinctValue | None:
        """Return the call of a text; ``None`` if it is nested too deeply."""
        head = _HEAD.match(text)
        if head is None:
            return None
        name = _name(head)
        value = self.arguments[name].value_of(text[head.end() :])
        return None if value is None else DistinctValue(CALL, json.dumps([name, value.value]))

    def spellings(self, value: DistinctValue) -> Node:
        """Return the language of the texts with a call."""
        name, arguments = json.loads(value.value)
        return self._call(name, self.arguments[name].spellings(DistinctValue(name, arguments)))

    def count_values(self, limit: int) -> int:
        """Return a lower bound on the number of calls, up to a limit."""
        count = 0
        for arguments in self.arguments.values():
            if count >= limit:
                break
            count += arguments.count_values(limit - count)
        return count


def calls_in_text(
    tools: Sequence[ToolSignature],
    calls: Part,
    *,
    max_calls: int | None = None,
    options: Mapping[str, Any] | None = None,
    excluding: Iterable[str] = (),
) -> Part | None:
    """Return the part of an answer with calls as JSON, alone or after free text.

    Args:
        tools: The tools.
        calls: The part with calls in the model's own format, which shares its arguments with this
            one if they are JSON.
        max_calls: The maximum number of calls; ``None`` if there is no bound.
        options: Options of :class:`~state_machines.json_schema.JsonSchemaStateMachine` for the
            arguments.
        excluding: Texts that end or begin something else, such as the marker of the format: the
            text before a tool's name contains none of them.

    Returns:
        The part; ``None`` if all spellings contain an excluded text.
    """
    shared = {
        part.tool.written_name: part
        for part in leaves(calls)
        if isinstance(part, CallArguments)
        and part.notation is JSON
        and part.schema is part.tool.parameters
    }
    arguments = {
        tool.written_name: shared.get(tool.written_name)
        or CallArguments(
            CALL, tool=tool, schema=tool.parameters, notation=JSON, options=options or {}
        )
        for tool in tools
    }
    excluded = tuple(text for text in excluding if _LETTERS.fullmatch(text))
    keys = _spelled(_KEY, excluded)
    if keys.is_empty or any(map(_SPANNING.match, excluded)):
        return None
    named = NamedArguments(CALL, arguments=arguments, keys=keys)
    bare = _Forms(named, max_calls, excluded, end="")
    fenced = _Forms(named, max_calls, excluded, end=_FENCE_END)
    indent = _spelled(_INDENT, excluded)
    found: list[Part] = []
    for (begin, after), headings in zip(bare.forms, bare.headings, strict=True):
        language = concatenation(indent, begin)
        found.append(
            Series(
                CallOpening(CALL, language=language, headings=concatenation(indent, headings)),
                after,
            )
        )
    fence = _spelled(_FENCE, excluded)
    if not fence.is_empty and fenced.forms:
        headings = concatenation(fence, union(fenced.headings))
        after = Choice(
            *(Series(CallLayout(CALL, language=begin), after) for begin, after in fenced.forms)
        )
        found.append(Series(CallOpening(CALL, language=fence, headings=headings), after))
    return Choice(*found) if found else None


class _Forms:
    """The forms of calls, each as its first character and the part behind it.

    Few parts begin a call, because all of them are tried at the start of each line.

    Attributes:
        forms: By form, the language of the character and the part.
        headings: By form, the text up to the key of the arguments, over code points.
    """

    def __init__(
        self, named: NamedArguments, max_calls: int | None, excluded: Sequence[str], end: str
    ) -> None:
        self.forms: list[tuple[Node, Part]] = []
        self.headings: list[Node] = []
        for bracket in ("{", "["):
            parts: list[Part] = []
            openings: list[Node] = []
            for opening, closing in _OBJECTS:
                brace = f"{_SPACE}\\{{" if bracket == "[" else ""
                language = after_text(_spelled(f"\\{bracket}{brace}{opening}", excluded), bracket)
                if language.is_empty:
                    continue
                openings.append(language)
                body: Part = named
                if bracket == "[":
                    between = _spelled(f"{closing}{_SPACE},{_SPACE}\\{{{opening}")
                    body = Repeat(
                        named,
                        min_count=1,
                        max_count=max_calls,
                        between=CallLayout(CALL, language=between),
                    )
                    closing += f"{_SPACE}\\]"
                parts.append(
                    Series(
                        CallLayout(CALL, language=language),
                        body,
                        CallClosing(CALL, language=_spelled(closing + end)),
                    )
                )
            if parts:
                begin = word_language([bracket])
                self.forms.append((begin, Choice(*parts)))
                self.headings.append(concatenation(begin, union(openings), named.headings))


def _language(arguments: CallArguments) -> Node:
    return arguments.language


def _spelled(pattern: str, excluded: Sequence[str] = ()) -> Node:
    """Return the texts of a pattern that contain none of some strings, over code points."""
    node = compile_pattern(pattern, search=False)
    return intersection((node, text_without(excluded))) if excluded else node


def _name(head: re.Match[str]) -> str:
    """Return the name of the tool in the text up to the arguments."""
    name: str = json.loads(f'"{head[1]}"')
    return name


def _in_json(name: str) -> str:
    """Return a name as the content of a JSON string."""
    return json.dumps(name, ensure_ascii=False)[1:-1]
