"""Formats of tool calls.

A :class:`ToolFormat` is an entry of the table in :mod:`state_machines.tool_calls.families`: texts
and a notation, no code. :meth:`ToolFormat.calls` returns the part of an answer that contains calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from keyword import iskeyword
from typing import Any, Literal

from state_machines.argument_notations import JSON, Notation
from state_machines.errors import CompositionError, MarkerError, ToolNameError
from state_machines.root.parts import (
    Choice,
    Marker,
    Optional,
    Part,
    Repeat,
    Series,
    Text,
    check_texts,
)
from state_machines.tool_calls.call import (
    ANY_IDS,
    CALL,
    CallArguments,
    CallEnd,
    CallId,
    CallIds,
    CallStart,
    ToolSignature,
    inner_texts,
    markers,
    one_of,
)
from state_machines.tool_calls.call_names import CallNames
from state_machines.tool_calls.template_writer import response_template
from state_machines.vocabulary import Vocabulary

_NAME = re.compile(r"\{name\}")
_ID = "{id}"


@dataclass(frozen=True)
class Delimiters:
    """The markers around a part of an answer; ``end`` is empty if an end token ends the part."""

    begin: str = ""
    end: str = ""


NO_DELIMITERS = Delimiters()


@dataclass(frozen=True, kw_only=True)
class Sign:
    """The signs that a tokenizer belongs to a family; all signs have to apply.

    Attributes:
        tokens: Tokens of its vocabulary.
        texts: Texts of its chat template.
        lacks: Texts that its chat template does not have.
        parser: The parser that mlx-lm selects for such tokenizers, if it is another one than that
            of the format.
    """

    tokens: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    parser: str | None = None


@dataclass(frozen=True, kw_only=True)
class ToolFormat:
    r"""The tool calls of a family of models.

    If ``wraps`` is ``"each"``, calls are written as::

        start head ARGUMENTS foot end [between] start head ARGUMENTS foot end …

    If it is ``"all"``, they are written as::

        start [opening] head ARGUMENTS foot [between] head ARGUMENTS foot … closing end

    Where a field has several texts, any one of them can be written.

    Attributes:
        name: The name of the format.
        models: The models that are trained to write it.
        start: The marker that begins calls and ends free text.
        end: The marker that ends calls. If it is empty, calls end with their foot or the answer.
        wraps: Whether ``start`` and ``end`` stand around each call or around all of them.
        opening: The text between ``start`` and the first call.
        head: The text before the arguments, with ``{name}`` for the tool's name and ``{id}`` for
            the text that :attr:`ids` describes.
        foot: The text after the arguments, which may contain ``{id}``.
        between: The text between two calls. If ``wraps`` is ``"each"``, white space can also
            follow the last call, so that a model that has written it can still end the answer.
        closing: The text between the last call and ``end``.
        notation: The notation of the arguments.
        avoid: Texts that no string in the arguments can contain, beside ``end``.
        without_arguments: The format of calls without arguments, if this format's parser cannot
            read them.
        custom: The format of calls of custom tools, if it is another one.
        also: Formats that can be written instead, with the same notation.
        interleaved: Whether text can stand between calls, and after the last one.
        parallel: Whether there can be several calls.
        names: A pattern (of :mod:`re`) for the names that can be written. Tools with other names
            are renamed.
        python_names: Whether words of Python are excluded from the names.
        is_delimited: Whether ``start`` and ``end`` are delimiters, rather than the first and the
            last text of a call.
        tokens: Markers that must be single tokens of the vocabulary, because the models know them
            only as such.
        ids: How calls are identified.
        reasoning: The markers around reasoning; ``None`` for those of the tokenizer.
        answer: The markers around the answer.
        preamble: The markers around text before a call.
        result: The delimiters around a tool's result, for chat templates that have none. They are
            not for the model to write: in an interleaved format, no text contains the first one.
        described_as: How plain text describes tools to the model: by their JSON Schemas, or as
            Python functions.
        joint: The text between two of these parts, or between one of them and calls.
        finish: The text after the last part.
        parser: The module of ``mlx_lm.tool_parsers`` that reads these calls, if there is one.
        signs: What shows that a tokenizer is of the family; one of them is enough.
    """

    name: str
    models: str
    start: str
    end: str = ""
    wraps: Literal["each", "all"] = "each"
    opening: tuple[str, ...] = ("",)
    head: str
    foot: tuple[str, ...] = ("",)
    between: tuple[str, ...] = ("",)
    closing: str = ""
    notation: Notation = JSON
    avoid: tuple[str, ...] = ()
    without_arguments: ToolFormat | None = None
    custom: ToolFormat | None = None
    also: tuple[ToolFormat, ...] = ()
    interleaved: bool = False
    parallel: bool = True
    names: str = r"[A-Za-z0-9_.:/-]+"
    python_names: bool = False
    is_delimited: bool = True
    tokens: tuple[str, ...] = ()
    ids: CallIds = ANY_IDS
    reasoning: Delimiters | None = None
    answer: Delimiters = NO_DELIMITERS
    preamble: Delimiters = NO_DELIMITERS
    result: Delimiters = Delimiters("<tool_response>\n", "\n</tool_response>")
    described_as: Literal["json_schema", "python"] = "json_schema"
    joint: str = ""
    finish: str = ""
    parser: str | None = None
    signs: tuple[Sign, ...] = ()

    def calls(
        self,
        tools: Sequence[ToolSignature],
        min_calls: int = 1,
        max_calls: int | None = None,
        options: Mapping[str, Any] | None = None,
        text: Text | None = None,
    ) -> Part:
        """Return the part of an answer that contains calls of the tools.

        Args:
            tools: The tools; their names must differ.
            min_calls: The minimum number of calls.
            max_calls: The maximum number of calls; ``None`` if there is no bound.
            options: Options of :class:`~state_machines.json_schema.JsonSchemaStateMachine` for the
                arguments. ``whitespace`` is for notations that contain JSON.
            text: Free text that can stand between calls and after them, outside of the delimiters;
                it cannot contain ``start``. ``None`` if there is no such text.

        Raises:
            CompositionError: There are no tools, or the bounds cannot be met.
            ToolNameError: Two tools have the same name.

        A tool whose name the format cannot write is called by its written name, see
        :class:`~state_machines.tool_calls.call_names.CallNames`. Schemas are compiled when the
        machine of the part is built.
        """
        self._check_names(tools)
        written = {tool.name: tool.written_name for tool in tools}
        tools = CallNames(self, tools, written).signatures(tools)
        if self.also and not any(tool.input is not None for tool in tools):
            entries = (replace(self, also=()), *self.also)
            least = max(min_calls, 1)
            each = [entry.calls(tools, least, max_calls, options, text) for entry in entries]
            return Choice(*each) if min_calls else Optional(Choice(*each))
        if not self.parallel:
            max_calls = 1
        if max_calls is not None and min_calls > max_calls:
            raise CompositionError(
                f"{min_calls} calls are required, and {max_calls} are possible",
                part=self.name,
                hint="" if self.parallel else "Models of this family call one tool at a time",
            )
        forms = [form for tool in tools for form in self._call_forms(tool, options or {})]
        call = Choice(*forms) if len(forms) > 1 else forms[0]
        start, between = Marker(CALL, self.start), one_of(self.between)
        if self.wraps == "each":
            wrapped = Series(start, call)
            after: tuple[Part, ...] = () if text is None else (text,)
            if text is None and between is not None and max_calls != 1 and self._is_spaced:
                # The same object, so that it is attributed before it is known what follows.
                after = (between if "" in self.between else Optional(between),)
            loop = Repeat(
                wrapped,
                min_count=max(min_calls, 1),
                max_count=max_calls,
                between=between if text is None else text,
            )
            calls = Series(loop, *after)
        else:
            opening = one_of(self.opening)
            begin = (start, opening) if opening is not None else (start,)
            end: tuple[Part, ...] = (*markers(self.closing), *markers(self.end))
            if text is not None:
                # The same objects as after the last call, so that they are attributed before it is
                # known whether another call follows.
                gap = Series(*end, text, *begin)
                between = Optional(gap) if between is None else Choice(between, gap)
                end = (*end, text)
            loop = Repeat(call, min_count=max(min_calls, 1), max_count=max_calls, between=between)
            calls = Series(*begin, loop, *end)
        return calls if min_calls else Optional(calls)

    def with_delimiters(self, begin: str, end: str) -> ToolFormat:
        r"""Return this format with other delimiters around calls.

        They replace ``start`` and ``end``, also where these are texts of a call: then they are
        written around it. White space of the format next to a delimiter is left out if the
        delimiter has its own there. A delimiter that is the name of a special token is written as
        this token.

        Args:
            begin: The text that begins calls. Free text cannot contain it.
            end: The text that ends calls; empty if calls end with their own last text.

        Raises:
            CompositionError: ``begin`` is empty, or a text is not a string of Unicode characters.

        >>> from state_machines.tool_calls import format_named
        >>> own = format_named("hermes").with_delimiters("<call>", "</call>")
        >>> own.start + own.head + own.foot[0] + own.end
        '<call>\n{"name": "{name}", "arguments": }\n</call>'
        """
        check_texts(self, "tool_delimiters", begin, end)
        if not begin:
            raise CompositionError(
                "the delimiter that begins tool calls is empty",
                part="tool_delimiters",
                hint="Free text ends at this delimiter, so it has at least one character",
            )
        opening, head, foot, closing = self.opening, self.head, self.foot, self.closing
        before, after = begin[-1].isspace(), not end or end[0].isspace()
        if not self.is_delimited and self.wraps == "each":
            head, foot = self.start + head, tuple(text + self.end for text in foot)
        elif not self.is_delimited:
            opening = tuple(self.start + text for text in opening)
            closing += self.end
        elif self.wraps == "each":
            head = head.lstrip() if before else head
            foot = tuple(text.rstrip() for text in foot) if after else foot
        else:
            opening = tuple(text.lstrip() for text in opening) if before else opening
            closing = closing.rstrip() if after else closing
        inner, custom = self.without_arguments, self.custom
        changed = replace(
            self,
            start=begin,
            end=end,
            opening=tuple(dict.fromkeys(opening)),
            head=head,
            foot=tuple(dict.fromkeys(foot)),
            closing=closing,
            without_arguments=inner.with_delimiters(begin, end) if inner is not None else None,
            custom=custom.with_delimiters(begin, end) if custom is not None else None,
            also=(),
            is_delimited=True,
            parser=None,
        )
        texts = changed.texts()
        kept = (
            token
            for token in self.tokens
            if token not in (self.start, self.end) or any(token in text for text in texts)
        )
        return replace(changed, tokens=tuple(kept))

    def to_response_template(self, *, start_anchor: str, end: str = "") -> dict[str, Any]:
        r"""Return the ``response_template`` with which transformers reads answers in this format.

        It is for ``tokenizer_config.json``. Values in tags are texts: transformers' parser converts
        them by the schemas of its option ``tools``. The template has the format's markers of
        reasoning; use :func:`dataclasses.replace` for those of a tokenizer.

        Args:
            start_anchor: The text before an answer in a prompt, such as ``<|im_start|>assistant``
                and a line feed.
            end: The end token of an answer, such as ``<|im_end|>``; empty if the texts that are
                read have none.

        Raises:
            CompositionError: The language of response templates cannot describe the calls.

        >>> from state_machines.tool_calls import format_named
        >>> template = format_named("hermes").to_response_template(start_anchor="assistant\n")
        >>> template["fields"]["tool_calls"]["close"]
        '</tool_call>'
        """
        check_texts(self, "start_anchor", start_anchor)
        check_texts(self, "end", end)
        return response_template(self, start_anchor, end)

    def check(self, vocabulary: Vocabulary) -> None:
        """Check that a vocabulary can write the format.

        Raises:
            MarkerError: The vocabulary lacks one of :attr:`tokens`, or a marker contains an end
                token, which would end the answer early. A marker that *is* an end token may be the
                last of an answer: the end itself is that marker.
        """
        special = vocabulary.special_tokens
        forms: set[bytes | None] | None = None
        for marker in self.tokens:
            if marker not in special:
                forms = forms or set(vocabulary.token_bytes)
                if marker.encode() not in forms:
                    raise self._marker_error(marker, "is no token of the vocabulary")
        ends = [name for name, token in special.items() if token in vocabulary.end_token_ids]
        last = (self.end, self.answer.end, self.finish)
        for marker in self.texts():
            for end in ends:
                if end in marker and not (marker == end and marker in last):
                    raise self._marker_error(end, "ends every answer")

    def _marker_error(self, marker: str, reason: str) -> MarkerError:
        return MarkerError(
            f"calls of the format {self.name!r} need {marker!r}, which {reason}",
            family=self.name,
            marker=marker,
            hint=f"The format is that of {self.models}; choose another one",
        )

    def new_id(self, name: str, index: int) -> str:
        """Return an id in the family's form, for a call whose id the model did not write.

        Args:
            name: The name of the tool.
            index: The number of the call in the answer, from 0.
        """
        return self.ids.new(name, index)

    def can_write_name(self, name: str) -> bool:
        """Return whether calls can have a tool's name as it is."""
        is_word = self.python_names and any(iskeyword(word) for word in name.split("."))
        return re.fullmatch(self.names, name) is not None and not is_word

    def _check_names(self, tools: Sequence[ToolSignature]) -> None:
        if not tools:
            raise CompositionError("there is no tool to call", part=self.name)
        seen = set()
        for tool in tools:
            if tool.name in seen:
                raise ToolNameError(
                    f"two tools are called {tool.name!r}", part=tool.name, family=self.name
                )
            seen.add(tool.name)

    @property
    def _is_spaced(self) -> bool:
        """Whether only white space stands between calls."""
        return not "".join(self.between).strip()

    def _call_forms(self, tool: ToolSignature, options: Mapping[str, Any]) -> list[Part]:
        if tool.input is not None:
            entry = self.custom or self
            return [entry._call(tool, entry._arguments(tool, options))]
        if self.without_arguments is None:
            return [self._call(tool, self._arguments(tool, options))]
        # Both forms name the same tool, so readers of calls need not distinguish them.
        schema = {} if isinstance(tool.parameters, bool) else tool.parameters
        minimum = schema.get("minProperties", 0)
        # The schema compiler refuses a bound that is not a number.
        nonempty = {
            "minProperties": max(minimum, 1) if isinstance(minimum, int | float) else minimum
        }
        empty = {"maxProperties": 0}
        forms = []
        for entry, bound in ((self, nonempty), (self.without_arguments, empty)):
            bounded = {**schema, **bound} if tool.parameters is not False else False
            arguments = entry._arguments(tool, options, bounded)
            if arguments.is_satisfiable:
                forms.append(entry._call(tool, arguments))
        return forms or [self._call(tool, self._arguments(tool, options))]

    def _arguments(
        self,
        tool: ToolSignature,
        options: Mapping[str, Any],
        schema: Mapping[str, Any] | bool | None = None,
    ) -> CallArguments:
        return CallArguments(
            CALL,
            tool=tool,
            schema=tool.parameters if schema is None else schema,
            notation=self.notation,
            avoid=self.avoided,
            options=options,
        )

    @cached_property
    def avoided(self) -> tuple[str, ...]:
        """The texts that no string in the arguments can contain."""
        # Parsers search for the end of a call before they read the JSON. They do not find a text
        # that JSON escapes, and one character such as "]" ends no call by itself.
        is_found = self.notation.has_json and len(self.end) > 1 and self.end.isprintable()
        return (*self.avoid, self.end) if is_found else self.avoid

    def _call(self, tool: ToolSignature, arguments: CallArguments) -> Part:
        before, has_id, after = self.head.partition(_ID)
        head: list[Part] = [
            CallStart(CALL, _NAME.sub(lambda _: tool.written_name, before), tool=tool)
        ]
        if has_id:
            head += [self._id(tool), *inner_texts(_NAME.sub(lambda _: tool.written_name, after))]
        feet = [self._foot(text, tool) for text in self.foot]
        end = (Choice(*(Series(*foot) for foot in feet)),) if len(feet) > 1 else feet[0]
        return Series(*head, arguments, *end)

    def _foot(self, text: str, tool: ToolSignature) -> tuple[Part, ...]:
        end = self.end if self.wraps == "each" else ""
        before, has_id, after = text.partition(_ID)
        if has_id:
            return (*inner_texts(before), self._id(tool), CallEnd(CALL, after), *markers(end))
        if text:
            return (CallEnd(CALL, text), *markers(end))
        return (CallEnd(CALL, end),) if end else ()

    def _id(self, tool: ToolSignature) -> CallId:
        return CallId(CALL, tool=tool, ids=self.ids)

    def texts(self) -> list[str]:
        around = [self.answer, self.preamble, *([self.reasoning] if self.reasoning else [])]
        return [
            *(self.start, self.end, self.head, self.closing, self.joint, self.finish),
            *(*self.opening, *self.foot, *self.between),
            *(text for delimiters in around for text in (delimiters.begin, delimiters.end)),
            *(self.custom.texts() if self.custom is not None else ()),
            *(text for entry in self.also for text in entry.texts()),
        ]
