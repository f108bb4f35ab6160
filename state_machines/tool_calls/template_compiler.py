r"""Compile a response template of transformers to a tool format.

A response template (``response_template`` in ``tokenizer_config.json``) describes how transformers
extracts reasoning, content and tool calls from an answer. The texts between the extracted parts
come from an example, such as the calls that the model's chat template writes::

    open head ARGUMENTS foot close [between] open head ARGUMENTS foot close …

Without an example that the template reads, short texts are written. A member that loses information
or has no inverse is refused by name, see ``docs/tool-formats.md``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from state_machines.argument_notations import Notation, TaggedNotation
from state_machines.argument_notations.literals import CALL_LIST
from state_machines.tool_calls.call import ANY_IDS, CallIds
from state_machines.tool_calls.template_anchors import Anchor, refuse, restricted_names
from state_machines.tool_calls.template_calls import (
    CALLS,
    EXAMPLE_CALLS,
    STRUCTURE,
    CallsField,
    common_start,
)
from state_machines.tool_calls.tool_format import NO_DELIMITERS, Delimiters, ToolFormat

REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""The fields of a message that have its reasoning."""

_NUMBERS = CallIds(pattern="0|[1-9][0-9]{0,3}", template="")
_TEXT_IDS = CallIds(pattern="[A-Za-z0-9]{9}", length=9)


def compile_response_template(
    template: Mapping[str, Any],
    base: ToolFormat,
    *,
    example: str = "",
    special: Collection[str] = (),
    ends: Collection[str] = (),
) -> ToolFormat:
    """Return the tool format of a response template.

    Args:
        template: The template, as ``tokenizer_config.json`` has it.
        base: The format of calls if the template has no field ``tool_calls``, and of tools and
            results in plain text.
        example: The text of :data:`EXAMPLE_CALLS` in the family's layout, if it is known.
        special: The special tokens of the vocabulary.
        ends: The special tokens that end an answer.

    Raises:
        CompositionError: A member of the template cannot be inverted. ``part`` is its path.
    """
    fields = template.get("fields") if isinstance(template, Mapping) else None
    if not isinstance(fields, Mapping) or not all(isinstance(f, dict) for f in fields.values()):
        raise refuse("should be an object of fields", "fields")
    calls, found = fields.get("tool_calls"), base
    if calls is not None:
        found = _calls_format(CallsField.of(calls, tuple(ends)), example, base)
    answer = _answer(fields, special, ends, has_calls=calls is not None)
    reasoning = _reasoning(fields, ends)
    found = replace(found, reasoning=reasoning, answer=answer, preamble=answer, joint="", finish="")
    # Markers are written as the single tokens that they are.
    written = (token for token in special if any(token in text for text in found.texts()))
    return replace(found, tokens=tuple(written))


def _reasoning(fields: Mapping[str, Any], ends: Collection[str]) -> Delimiters | None:
    name = next((name for name in REASONING_FIELDS if name in fields), None)
    if name is None:
        return None
    begin, end = (_required_word(anchor, ends) for anchor in _text_anchors(fields, name))
    if not begin or not end or end in ends:
        raise refuse("no texts open and close reasoning", f"fields.{name}")
    return Delimiters(begin, end)


def _answer(
    fields: Mapping[str, Any], special: Collection[str], ends: Collection[str], *, has_calls: bool
) -> Delimiters:
    if "content" not in fields:
        return NO_DELIMITERS
    opening, closing = _text_anchors(fields, "content")
    if opening is not None:
        begin, end = _required_word(opening, ends), _required_word(closing, ends)
        if has_calls and (not end or end in ends):
            raise refuse("no text closes content before a call", "fields.content.close")
        return Delimiters(begin, end)
    # Free text has no special tokens, so nothing but the end of an answer closes it.
    if closing is not None and not closing.requires(next(iter(ends), "\0"), (*special, *ends)):
        raise refuse("content closes at a text that is no special token", closing.where)
    return NO_DELIMITERS


def _text_anchors(fields: Mapping[str, Any], name: str) -> tuple[Anchor | None, Anchor | None]:
    field, where = fields[name], f"fields.{name}"
    if field.get("content", "text") != "text":
        raise refuse(f"{field['content']!r} is no text", f"{where}.content")
    if field.get("transform") is not None:
        raise refuse("a transformed text has no inverse", f"{where}.transform")
    return Anchor.of(field, "open", where), Anchor.of(field, "close", where)


def _required_word(anchor: Anchor | None, ends: Collection[str]) -> str:
    """Return the text that an anchor needs; empty if there is no anchor."""
    text = "" if anchor is None else anchor.word({}, ends)
    if anchor is not None and not anchor.requires(text, ends):
        raise refuse("alternatives without a common text have one reading", anchor.where)
    return text


class _TemplateRegion(NamedTuple):
    """Where an example opens the field, where the content begins and ends, and where it closes."""

    start: int
    content_start: int
    content_end: int
    end: int


def _calls_format(calls: CallsField, example: str, base: ToolFormat) -> ToolFormat:
    """Return the format of calls with the texts of an example, else with short texts."""
    layout = _Layout.of(calls, example) or _Layout.of(calls, calls.short_example())
    if layout is None:
        raise refuse("calls have no fixed texts around their arguments", CALLS)
    return replace(layout.tool_format(), result=base.result, described_as=base.described_as)


@dataclass(frozen=True)
class _Layout:
    """The parts of an example that the template reads.

    Attributes:
        calls: The field.
        text: The example.
        regions: The regions of the field, one for each call or one for all.
        spans: The start and end of the arguments of each call.
        notation: Their notation.
    """

    calls: CallsField
    text: str
    regions: list[_TemplateRegion]
    spans: list[tuple[int, int]]
    notation: Notation

    @classmethod
    def of(cls, calls: CallsField, text: str) -> _Layout | None:
        """Divide an example; ``None`` if the template does not read it."""
        regions = [region for at in [0] if (region := _region(calls, text, at)) is not None]
        if regions and calls.is_parallel and not calls.is_list:
            regions += filter(None, [_region(calls, text, regions[0].end)])
        if not regions:
            return None
        content = text[regions[0].content_start : regions[0].content_end]
        notation = calls.content.notation(content, EXAMPLE_CALLS[0][2])
        if notation is None:
            return None
        spans = []
        for index in range(2 if calls.is_list else len(regions)):
            region = regions[0 if calls.is_list else index]
            span = _span(notation, text, next(iter(EXAMPLE_CALLS[index][2])), region)
            if span is None:
                return None
            spans.append(span)
        return cls(calls, text, regions, spans, notation)

    def tool_format(self) -> ToolFormat:
        """Return the format with these texts.

        Raises:
            CompositionError: They cannot be those of every call.
        """
        calls, text, (first, *others) = self.calls, self.text, self.regions
        (start, end), *more = self.spans
        opened = _named(text[first.start : first.content_start], 0)
        before = _named(text[first.start : start], 0)
        after = text[(more or self.spans)[0][1] if calls.is_list else end : first.end]
        closing = self._closing_text()
        begin, foot = self._opening_text(opened), after.removesuffix(closing)
        texts: dict[str, Any] = {"head": before[len(begin) :], "foot": (foot,)}
        ids = ANY_IDS
        if calls.is_list:
            between = _named(text[end : more[0][0]], 1)
            before, between, ids = _numbered(before, between)
            head = common_start(before[::-1], between[::-1])[::-1]
            foot_of_each = common_start(between[: len(between) - len(head)], foot)
            texts = {
                "opening": (before[len(begin) : len(before) - len(head)],),
                "head": head,
                "foot": (foot_of_each,),
                "between": (between[len(foot_of_each) : len(between) - len(head)],),
                "closing": foot[len(foot_of_each) :],
            }
        elif more:
            second = _named(text[others[0].start : more[0][0]], 1)
            before, second, ids = _numbered(before, second)
            texts |= {"head": before[len(begin) :], "between": (text[first.end : others[0].start],)}
            if before != second:
                raise refuse("calls have different texts", CALLS)
        head = begin + texts["head"]
        if "{name}" not in head or "{id}" in foot:
            raise refuse("the name of the tool is behind its arguments", CALLS)
        group = calls.opening.group(calls.name[0])
        following = head[head.index("{name}") + len("{name}") :][:1]
        return ToolFormat(
            name="response_template",
            models="the model's response template",
            start=begin,
            end=closing,
            wraps="all" if calls.is_list else "each",
            notation=self.notation,
            avoid=self._avoided(closing),
            parallel=calls.is_parallel,
            names=self._names(group, following),
            is_delimited="{name}" not in opened,
            ids=_TEXT_IDS if "{id}" in head and ids is ANY_IDS else ids,
            **texts,
        )

    def _names(self, group: str | None, following: str) -> str:
        if self.notation is CALL_LIST:
            return "[A-Za-z_][A-Za-z0-9_]*"
        return restricted_names(group or r"[\w.:/-]+", following, self.calls.opening.where)

    def _opening_text(self, opened: str) -> str:
        """Return the text that ends free text, which every opening of a call has."""
        anchor, whole = self.calls.opening, opened.partition("{name}")[0]
        run = next(iter(anchor.runs()), "")
        for text in (whole, whole.rstrip(), re.split(r"\s", whole)[0], run):
            if text and whole.startswith(text) and anchor.requires(text, self.calls.ends):
                return text
        raise refuse("alternatives without a common text have one reading", anchor.where)

    def _closing_text(self) -> str:
        """Return the text that ends calls, which every closing has."""
        anchor, region = self.calls.closing, self.regions[0]
        if anchor is None:
            return ""
        closed = self.text[region.content_end : region.end] or anchor.word({}, self.calls.ends)
        run = anchor.runs()[-1]
        for text in (closed, closed.strip(), re.split(r"\s", closed)[-1], run):
            if text and closed.endswith(text) and anchor.requires(text, self.calls.ends):
                return text
        raise refuse("alternatives without a common text have one reading", anchor.where)

    def _avoided(self, closing: str) -> tuple[str, ...]:
        """Return the texts that end calls for the parser wherever they are."""
        if not closing or closing in self.calls.ends:
            return ()
        if not closing.strip("\n") and not isinstance(self.notation, TaggedNotation):
            # JSON and lists of calls escape line feeds.
            return ()
        if all(letter in STRUCTURE for letter in closing):
            raise refuse(f"{closing!r} ends calls and occurs in arguments", f"{CALLS}.close")
        return (closing,)


def _region(calls: CallsField, text: str, start: int) -> _TemplateRegion | None:
    opened = calls.opening.regex.search(text, start)
    if opened is None:
        return None
    begin = opened.end() - len(opened[0].lstrip())
    closing = calls.closing
    closed = closing.regex.search(text, opened.end()) if closing is not None else None
    at, end = closed.span() if closed is not None else (len(text), len(text))
    return _TemplateRegion(begin, opened.end(), at, end)


def _span(
    notation: Notation, text: str, key: str, region: _TemplateRegion
) -> tuple[int, int] | None:
    """Return where the arguments whose first key is ``key`` begin and end."""
    at = text.find(key, region.content_start, region.content_end)
    if isinstance(notation, TaggedNotation):
        start = at - len(notation.before_name)
    else:
        bracket = "(" if notation is CALL_LIST else "{"
        start = text.rfind(bracket, region.content_start, at) + (notation is CALL_LIST)
    try:
        return (start, notation.end(text, start)) if region.content_start <= start else None
    except ValueError:
        return None


def _named(text: str, index: int) -> str:
    """Return a text of an example with placeholders for the name and the id of a call."""
    name, id, _ = EXAMPLE_CALLS[index]
    return text.replace(name, "{name}").replace(id, "{id}")


def _numbered(first: str, second: str) -> tuple[str, str, CallIds]:
    """Replace the number of a call by a placeholder if it is in the texts before two calls."""
    texts = [re.split(r"(\d+)", text)[::-1] for text in (first, second)]
    for place, (one, other) in enumerate(zip(*texts, strict=False)):
        if one != other and one.isdigit() and other.isdigit() and int(other) == int(one) + 1:
            for pieces in texts:
                pieces[place] = "{id}"
            return "".join(texts[0][::-1]), "".join(texts[1][::-1]), _NUMBERS
    return first, second, ANY_IDS
