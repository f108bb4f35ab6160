r"""Write the response template of a tool format.

A response template (``response_template`` in ``tokenizer_config.json``) says how transformers takes
reasoning, content and tool calls out of an answer. Calls are one of three kinds of regions:

| calls | region | content |
|---|---|---|
| JSON with the name in it | from its first bracket on | ``json`` |
| a Python list | between the delimiters | ``python-call-list`` |
| others | a call's arguments; the name is a group of ``open_pattern`` | that of the notation |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from state_machines.argument_notations import JsonNotation, TaggedNotation
from state_machines.argument_notations.gemma import MarkedNotation
from state_machines.argument_notations.literals import PythonicNotation
from state_machines.errors import CompositionError
from state_machines.tool_calls.template_calls import call_transform

if TYPE_CHECKING:
    from state_machines.tool_calls.tool_format import ToolFormat

_NAME, _ID = "{name}", "{id}"
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_DECODER = json.JSONDecoder()

Field = dict[str, Any]


def response_template(entry: ToolFormat, start_anchor: str, end: str) -> dict[str, Any]:
    """Return the response template of a format; see :meth:`ToolFormat.to_response_template`."""
    fields: dict[str, Field] = {}
    if entry.reasoning is not None:
        fields["thinking"] = _region([entry.reasoning.begin], [entry.reasoning.end])
    fields["tool_calls"] = _calls(entry)
    answers = [delimiters for delimiters in (entry.answer, entry.preamble) if delimiters.begin]
    fields["content"] = {
        # Without them a later region replaces an earlier one, and white space between calls is one.
        "repeats": True,
        "join": "",
        **_region(
            [delimiters.begin for delimiters in answers], [delimiters.end for delimiters in answers]
        ),
    }
    for field in fields.values():
        if end and "close_pattern" in field:
            field["close_pattern"] += f"|(?={_escape(end)})"
        elif end:
            field.setdefault("close", end)
    return {"defaults": {"role": "assistant"}, "start_anchor": start_anchor, "fields": fields}


def _calls(entry: ToolFormat) -> Field:
    if isinstance(entry.notation, PythonicNotation):
        return _python_list(entry)
    found = _json_calls(entry) if isinstance(entry.notation, JsonNotation) else None
    return found or _call_regions(entry)


def _refuse(entry: ToolFormat, reason: str) -> CompositionError:
    return CompositionError(
        f"a response template cannot read calls of the format {entry.name!r}: {reason}",
        part="response_template",
        hint="Parse these calls with state_machines.tool_calls.split_calls",
    )


# Calls that are JSON, or a list of Python's calls.


def _json_calls(entry: ToolFormat) -> Field | None:
    """Return the field of calls whose name is in the JSON; ``None`` for other formats."""
    name = "tool-name"
    before = entry.start + entry.opening[0] + entry.head.replace(_NAME, name).replace(_ID, "0")
    text = before + "{}" + entry.foot[0].replace(_ID, "0") + entry.closing + entry.end
    at, end, value = next(json_values_around(text, len(before)), (0, 0, None))
    call = value[0] if isinstance(value, list) else value
    if not isinstance(call, dict) or name not in before[at:]:
        return None
    keys = {json.dumps(member): key for key, member in call.items()}
    if '"tool-name"' not in keys:
        raise _refuse(entry, "the name of the tool is a key of the JSON")
    in_list = isinstance(value, list)
    if not in_list and entry.wraps == "all":
        return None
    prefix = "" if in_list else "content."
    paths = (prefix + keys[written] for written in (json.dumps(name), "{}"))
    starts = [other.start for other in (entry, *entry.also)]
    # White space around JSON is JSON's, and strings contain no end marker.
    close = text[end:] if text[end:].strip() not in entry.avoided else text[end:].strip()
    opens = _opening(start[:at] for start in starts) if at >= len(entry.start) else None
    field: Field = {
        **(opens or {"open_pattern": _before_json(entry.start, at)}),
        **_closing([close], entry),
        "content": "json",
        "transform": call_transform(*paths),
    }
    return {**field, **({"transform_each": True} if in_list else {"repeats": True})}


def json_values_around(text: str, inner: int) -> Iterator[tuple[int, int, Any]]:
    """Yield the JSON values that contain a position of a text, from the largest on."""
    for bracket in re.finditer(r"[\[{]", text[: inner + 1]):
        try:
            value, end = _DECODER.raw_decode(text, bracket.start())
        except ValueError:
            continue
        if end > inner:
            yield bracket.start(), end, value


def _before_json(start: str, at: int) -> str:
    """Return the pattern of a start whose last part belongs to the JSON."""
    return f"{_escape(start[:at])}(?={_escape(start[at:])})"


def _python_list(entry: ToolFormat) -> Field:
    texts = (entry.opening, entry.head, entry.foot, entry.between, entry.closing)
    if texts != (("[",), "{name}(", (")",), (", ",), "]"):
        raise _refuse(entry, "its calls in Python's syntax are no list")
    return {
        **_region([entry.start], [entry.end]),
        "content": "python-call-list",
        "transform_each": True,
        "transform": call_transform("name", "arguments"),
    }


# A region for each call.


class _Content(NamedTuple):
    """The content of a region."""

    content: str
    arguments: Mapping[str, Any] = {}

    @property
    def field(self) -> Field:
        arguments = {"content_args": dict(self.arguments)} if self.arguments else {}
        return {"content": self.content, **arguments}


def _call_regions(entry: ToolFormat) -> Field:
    pattern = _any_of(_head(format, entry) for format in (entry, *entry.also))
    if entry.without_arguments is not None:
        # The region has no tag then, and its content is an empty object.
        pattern = _any_of([pattern, _head(entry.without_arguments, entry)])
    has_id = "(?P<id>" in pattern
    return {
        "open_pattern": pattern,
        **_end_of_call(entry),
        "repeats": True,
        **_content(entry).field,
        "transform": call_transform("name", "content", **({"id": "{id}"} if has_id else {})),
    }


def _end_of_call(entry: ToolFormat) -> Field:
    if entry.wraps == "each":
        return _closing([foot + entry.end for foot in entry.foot], entry)
    # The streaming parser takes the first match of a pattern. So the two alternatives exclude each
    # other: the end of the section, and the next call.
    feet, gaps = _any_of(map(_escape, entry.foot)), _any_of(map(_escape, entry.between))
    after = f"{gaps}(?={_escape(entry.head.partition(_NAME)[0])})"
    if not entry.head.partition(_NAME)[0]:
        raise _refuse(entry, "no text begins the calls of a section")
    return {"close_pattern": f"{feet}(?:{_escape(entry.closing + entry.end)}|{after})"}


def _head(form: ToolFormat, entry: ToolFormat) -> str:
    """Return the pattern of the text before the arguments of a call."""
    names, ids = f"(?P<name>{entry.names})", f"(?:{entry.ids.pattern})"
    template, head = entry.ids.template, _escape(form.head)
    if _ID in template and template in form.head:
        head = head.replace(_escape(template), f"(?P<id>{_escape(template)})")
    head = head.replace(_escape(_NAME), names, 1).replace(_escape(_ID), ids)
    start = [_escape(form.start + text) for text in form.opening]
    if form.wraps == "each":
        return _any_of(start) + head
    return f"(?:{'|'.join(start)})?{head}"


def _content(entry: ToolFormat) -> _Content:
    notation = entry.notation
    match notation:
        case JsonNotation():
            return _Content("json")
        case MarkedNotation():
            delimiters = [notation.marker, notation.marker]
            return _Content("json", {"unquoted_keys": True, "string_delims": [delimiters]})
        case TaggedNotation():
            return _Content("xml-inline", _tag_arguments(notation))
    raise _refuse(entry, f"the notation {notation.name!r} nests elements")


def _tag_arguments(notation: TaggedNotation) -> dict[str, Any]:
    kinds = _any_of(map(_escape, dict.fromkeys(notation.kinds.values()))) if notation.kinds else ""
    value = "(?P<value>.*?)"
    if notation.wraps_lines:
        value = rf"\n?{value}\n?"
    before, after, end = map(
        _escape, (notation.before_name, notation.after_name, notation.after_value)
    )
    arguments: dict[str, Any] = {"tag_pattern": f"{before}(?P<key>.*?){after}{kinds}{value}{end}"}
    if not notation.knows_types:
        arguments["value_parser"] = {"name": "json", "args": {"allow_non_json": True}}
    return arguments


# Members of fields.


def _region(opens: Iterable[str], closes: Iterable[str]) -> Field:
    """Return the anchors of a field; a text that is empty has none."""
    return {**_opening(opens), **_texts("close", closes)}


def _opening(texts: Iterable[str]) -> Field:
    return _texts("open", texts)


def _texts(key: str, texts: Iterable[str]) -> Field:
    distinct = list(dict.fromkeys(filter(None, texts)))
    return {key: distinct[0] if len(distinct) == 1 else distinct} if distinct else {}


def _closing(texts: list[str], entry: ToolFormat) -> Field:
    if any(texts) or not entry.parallel or entry.wraps == "all":
        return _texts("close", texts)
    return {"close_pattern": f"(?={_escape(entry.start)})"}


def _any_of(patterns: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(patterns))
    return distinct[0] if len(distinct) == 1 else f"(?:{'|'.join(distinct)})"


def _escape(text: str) -> str:
    r"""Return a pattern of a text; :func:`re.escape` also escapes spaces and ``-``.

    >>> _escape("a-b (c)\n")
    'a-b \\(c\\)\n'
    """
    return _SPECIAL.sub(r"\\\g<0>", text)
