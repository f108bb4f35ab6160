"""The field ``tool_calls`` of a response template, and the arguments of calls as a notation.

A content type names a parser of transformers. The notation has the layout of an example that the
parser reads, and excludes the values that the parser would read as others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from state_machines.argument_notations import JSON, Notation, TaggedNotation
from state_machines.argument_notations.gemma import MarkedNotation
from state_machines.argument_notations.literals import CALL_LIST
from state_machines.tool_calls.template_anchors import Anchor, refuse, restricted_names

CONTENTS = ("json", "xml-inline", "kv-lines", "python-call-list")
"""The content types that calls can have."""

STRUCTURE = '{}[]",:0123456789. \n'
"""Characters of JSON outside of strings."""

_NAME = "response-template"
_WORDS = r"^[\p{L}\p{Nd}_]+$"
_FLEXIBLE = re.compile(r"[*?+}]\??$")
_SPACES = re.compile(r"^(?:\\[sn][*?+]\??)+")


@dataclass(frozen=True)
class Content:
    """The content of ``tool_calls``.

    Attributes:
        kind: The content type, one of :data:`CONTENTS`.
        args: Its arguments.
    """

    kind: str
    args: Mapping[str, Any]

    def notation(self, text: str, arguments: Mapping[str, str]) -> Notation | None:
        """Return the notation of arguments.

        Args:
            text: The content of an example.
            arguments: The arguments of the first call in it.

        Raises:
            CompositionError: A member of ``args`` cannot be inverted.
        """
        if self.kind == "python-call-list":
            return CALL_LIST
        if self.kind == "json":
            return self._json(text)
        if self.kind == "kv-lines":
            return self._lines(text, *next(iter(arguments.items())))
        return self._tags(text)

    def written(self, call: Mapping[str, Any], name: str, arguments: Mapping[str, str]) -> str:
        """Return a short text of a call.

        Args:
            call: The value that the parser returns for the content.
            name: The name of the call.
            arguments: Its arguments, those of an example.
        """
        if self.kind == "python-call-list":
            return f"{name}({CALL_LIST.write(arguments)})"
        if self.kind == "json":
            return self._json("").write(call)
        if self.kind == "kv-lines":
            separator, line, is_stripped = self._separators
            space = " " if is_stripped and not separator[-1].isspace() else ""
            return "".join(f"{k}{separator}{space}{v}{line}" for k, v in arguments.items())
        quote = json.dumps if self._values == "json" else str
        return "".join(self._tag.word({"key": k, "value": quote(v)}) for k, v in arguments.items())

    def _json(self, text: str) -> Notation:
        pairs = self.args.get("string_delims") or ()
        if not pairs:
            return JSON
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            raise refuse("should be a list of pairs", _where("string_delims"))
        begin, end = next((pair for pair in pairs if pair[0] in text), pairs[0])
        others = [mark for pair in pairs for mark in pair if mark not in (begin, end)]
        is_bare = self.args.get("unquoted_keys") is True
        return MarkedNotation(
            _NAME,
            marker=begin,
            names=_WORDS if is_bare else r"^[\p{L}\p{Nd}_./$ -]+$",
            nests=True,
            # The parser uses two control characters for itself.
            avoid=("\x01", "\x02", *others),
            end_marker="" if begin == end else end,
            name_quote="" if is_bare else '"',
        )

    def _lines(self, text: str, key: str, value: str) -> Notation | None:
        separator, line, is_stripped = self._separators
        gap = re.search(f"{re.escape(key)}(.*?){re.escape(value)}", text)
        if gap is None or gap[1].strip() != separator.strip():
            return None
        if not is_stripped and gap[1] != separator:
            return None
        return TaggedNotation(
            _NAME,
            before_name="",
            after_name=gap[1],
            after_value=line,
            closing=line,
            avoid=(),
            names=_WORDS if separator[0] in "._-" else r"^[\p{L}\p{Nd}_.-]+$",
            # A separator that ends with a space loses it at the end of a line.
            has_empty=not (is_stripped and separator[-1].isspace()),
            **self._value_options(is_stripped),
        )

    def _tags(self, text: str) -> Notation | None:
        found = list(self._tag.regex.finditer(text))
        if len(found) < 2:
            return None
        first, second = found[:2]
        gap = text[first.end() : second.start()]
        after_name = text[first.end("key") : first.start("value")]
        after_value = text[first.end("value") : first.end()]
        is_inside = text.startswith(gap, second.end())
        closing = after_value.strip() or after_value
        where = _where("tag_pattern")
        before, behind = self._tag.around("value")
        ending = Anchor.of_pattern(_SPACES.sub("", behind), where)
        if not closing or not ending.begins_fixed or not ending.requires(closing):
            raise refuse("no fixed text ends a value", where)
        excluded, has_empty = _excluded(self._tag.group("value") or "", where)
        # The parser takes a flexible text around a value for as long as possible.
        trims = bool(_FLEXIBLE.search(before) or _SPACES.match(behind))
        names = restricted_names(self._tag.group("key") or "", after_name, where)
        return TaggedNotation(
            _NAME,
            before_name=text[first.start() : first.start("key")],
            after_name=after_name,
            after_value=after_value + gap if is_inside else after_value,
            between="" if is_inside else gap,
            closing=closing,
            avoid=tuple(excluded),
            names=f"^{names}$",
            has_empty=has_empty,
            **self._value_options(trims),
        )

    def _value_options(self, is_stripped: bool) -> dict[str, Any]:
        """Return how a notation of tags writes values."""
        if self._values == "json":
            return {"knows_types": False}
        if self._values == "lax-json":
            return {"guesses": True, "literals": "json", "knows_types": False, "converts": True}
        inner = (self.args.get("value_parser") or {}).get("args", {})
        strips = self._values == "text" and inner.get("strip", True) is not False
        return {
            "trims": is_stripped or strips,
            "raw_unions": True,
            "unlisted_are_strings": True,
            "converts": True,
        }

    @cached_property
    def _values(self) -> str:
        """How values are read: ``raw``, ``text``, ``json`` or ``lax-json``."""
        parser = self.args.get("value_parser")
        if parser is None:
            return "raw"
        name = parser.get("name", "text") if isinstance(parser, Mapping) else None
        inner = parser.get("args", {}) if isinstance(parser, Mapping) else {}
        if name not in ("text", "json"):
            raise refuse(f"the parser {name!r} reads no other values", _where("value_parser.name"))
        if inner.get("string_delims") or inner.get("unquoted_keys"):
            raise refuse("values in another notation", _where("value_parser.args"))
        return "lax-json" if name == "json" and inner.get("allow_non_json") else str(name)

    @cached_property
    def _separators(self) -> tuple[str, str, bool]:
        """The separators of ``kv-lines``, and whether names and values are stripped."""
        separator, line = self.args.get("kv_sep", ":"), self.args.get("line_sep", "\n")
        for key, text in (("kv_sep", separator), ("line_sep", line)):
            if not isinstance(text, str) or not text:
                raise refuse("should be a text", _where(key))
        if line != "\n" and any(letter in STRUCTURE or letter.isalnum() for letter in line):
            raise refuse(f"{line!r} ends lines and occurs in values", _where("line_sep"))
        if separator[0].isalnum() or separator[0] == "_" or not separator.strip():
            raise refuse(f"names and values contain {separator!r}", _where("kv_sep"))
        return separator, line, self.args.get("strip", True) is not False

    @cached_property
    def _tag(self) -> Anchor:
        anchor = Anchor.of_pattern(self.args.get("tag_pattern"), _where("tag_pattern"))
        if [name for _, name in anchor.pieces() if name] != ["key", "value"]:
            raise refuse("needs the groups 'key' and 'value' in this order", anchor.where)
        return anchor


def _where(member: str) -> str:
    return f"fields.tool_calls.content_args.{member}"


def _excluded(group: str, where: str) -> tuple[list[str], bool]:
    """Return the characters that no value of a group has, and whether a value may be empty."""
    found = re.fullmatch(r"(\.|\[\^(?:\\.|[^\]\\])+\])([*+])(\??)", group, re.DOTALL)
    if found is None or (found[1] == "." and not found[3]):
        raise refuse(f"the group {group!r} does not match every value", where)
    if found[1] == ".":
        return [], found[2] == "*"
    members = re.compile(found[1], re.DOTALL)
    excluded = [letter for letter in map(chr, range(128)) if not members.fullmatch(letter)]
    if any(letter in STRUCTURE.rstrip("\n") or letter.isalnum() for letter in excluded):
        raise refuse(f"the group {group!r} does not match every value", where)
    return excluded, found[2] == "*"


CALLS = "fields.tool_calls"
"""Where a template has the field."""

EXAMPLE_CALLS = tuple(
    (f"zqcall{n}", f"zqid0000{n}", {f"zqkey{n}a": f"zqvalue{n}a", f"zqkey{n}b": f"zqvalue{n}b"})
    for n in "ab"
)
"""The calls of an example: name, id and arguments."""

Path: TypeAlias = tuple[str, ...]
"""A group of an anchor, or a member of the content: ``content`` and the keys that lead to it."""

_PLACEHOLDER = re.compile(r"\{(\w+(?:\.\w+)*)\}")


def call_transform(name: str, arguments: str, **members: str) -> dict[str, Any]:
    """Return the ``transform`` of a call, given the paths of its parts and further members."""
    function = {"name": f"{{{name}}}", "arguments": f"{{{arguments}}}"}
    return {"type": "function", **members, "function": function}


@dataclass(frozen=True)
class CallsField:
    """The field ``tool_calls``.

    Attributes:
        opening: What opens a call, or a list of calls.
        closing: What closes it; ``None`` if the end of the answer does.
        content: The content between.
        name: The path of a call's name.
        arguments: The path of its arguments.
        id: The path of its id; empty if it has none.
        is_list: Whether the content is a list of calls.
        repeats: Whether the field repeats.
        ends: Tokens that end every answer.
    """

    opening: Anchor
    closing: Anchor | None
    content: Content
    name: Path
    arguments: Path
    id: Path
    is_list: bool
    repeats: bool
    ends: tuple[str, ...]

    @classmethod
    def of(cls, field: Mapping[str, Any], ends: tuple[str, ...]) -> CallsField:
        """Read the field.

        Raises:
            CompositionError: A member cannot be inverted.
        """
        opening, closing = (Anchor.of(field, key, CALLS) for key in ("open", "close"))
        if opening is None:
            raise refuse("no text opens a call", f"{CALLS}.open")
        if closing is not None and not closing.word({}):
            closing = None
        kind, repeats = field.get("content", "text"), field.get("repeats") is True
        transform, is_each = field.get("transform"), field.get("transform_each") is True
        if kind not in CONTENTS:
            raise refuse(f"the content {kind!r} leaves arguments unread", f"{CALLS}.content")
        if field.get("join") is not None:
            raise refuse("calls are no texts to join", f"{CALLS}.join")
        is_call_list = kind == "python-call-list"
        is_list = is_each or is_call_list or (transform is None and not repeats)
        if (is_list and repeats) or (is_call_list and transform is not None and not is_each):
            raise refuse("a list of calls inside a list", f"{CALLS}.repeats")
        if transform is None:
            default = {"name": "{name}", "arguments": "{arguments}"}
            function = "{function}" if is_list else "{content.function}"
            transform = default if is_call_list else {"function": function}
        name, arguments, id = _paths(transform)
        # The members of a list are in the scope of the transform themselves.
        if is_list:
            groups = [group for _, group in opening.pieces() if group]
            paths = (name, arguments, id)
            name, arguments, id = (
                ("content", *path) if path and path[0] not in groups else path for path in paths
            )
        content = Content(kind, field.get("content_args") or {})
        found = cls(opening, closing, content, name, arguments, id, is_list, repeats, ends)
        found._check()
        return found

    def _check(self) -> None:
        """Refuse paths that lead to no text of a call."""
        where = f"{CALLS}.transform"
        for path in filter(None, (self.name, self.arguments, self.id)):
            if path[0] == "content":
                continue
            if self.closing is not None and self.closing.group(path[0]) is not None:
                raise refuse(f"the group {path[0]!r} is behind the arguments", f"{CALLS}.close")
            if self.opening.group(path[0]) is None or len(path) > 1 or self.is_list:
                raise refuse(f"{'.'.join(path)!r} is no part of one call", where)
        if self.arguments[0] != "content":
            raise refuse("arguments outside of the content", where)
        if self.name[: len(self.arguments)] == self.arguments:
            raise refuse("the name of the tool is one of the arguments", where)
        if self.content.kind in ("xml-inline", "kv-lines") and self.arguments != ("content",):
            raise refuse(f"{self.content.kind!r} has no inner arguments", where)
        if self.content.kind == "python-call-list" and (self.name[1:], self.arguments[1:]) != (
            ("name",),
            ("arguments",),
        ):
            raise refuse("calls in a list have a name and arguments", where)

    @property
    def is_parallel(self) -> bool:
        """Whether an answer can have several calls."""
        closes = self.closing is not None and self.closing.word({}, self.ends) not in self.ends
        return self.is_list or (self.repeats and closes)

    def short_example(self) -> str:
        """Return the text of :data:`EXAMPLE_CALLS` with short anchors."""
        calls = EXAMPLE_CALLS if self.is_parallel else EXAMPLE_CALLS[:1]
        close = self.closing.word({}, self.ends) if self.closing is not None else ""
        if self.is_list:
            contents = ", ".join(self._content(*call) for call in calls)
            return f"{self.opening.word({})}[{contents}]{close}"
        written = []
        for name, id, arguments in calls:
            groups = {path[0]: text for path, text in ((self.name, name), (self.id, id)) if path}
            groups.pop("content", None)
            content = self._content(name, id, arguments)
            written.append(f"{self.opening.word(groups)}{content}{close}")
        return "".join(written)

    def _content(self, name: str, id: str, arguments: Mapping[str, str]) -> str:
        call: dict[str, Any] = {}
        for path, value in ((self.name, name), (self.id, id), (self.arguments, arguments)):
            inner, keys = call, path if path[:1] == ("content",) else ()
            for key in keys[:-1]:
                inner = inner.setdefault(key, {})
            if keys:
                inner[keys[-1]] = value
        return self.content.written(call["content"], name, arguments)


def _paths(transform: Any) -> tuple[Path, Path, Path]:
    """Return the paths of name, arguments and id of a call.

    Raises:
        CompositionError: The transform does not return a call, or loses a part of it.
    """
    if isinstance(transform, list) and len(transform) == 1:
        transform = transform[0]
    members = transform if isinstance(transform, Mapping) else {}
    call = members.get("function", transform)
    whole = _path(call)
    if whole:
        return (*whole, "name"), (*whole, "arguments"), _path(members.get("id"))
    if not isinstance(call, Mapping):
        raise refuse("should return a call", f"{CALLS}.transform")
    name, arguments = _path(call.get("name")), _path(call.get("arguments"))
    for key, path in (("name", name), ("arguments", arguments)):
        if not path:
            raise refuse(f"loses the {key} of a call", f"{CALLS}.transform")
    return name, arguments, _path(members.get("id"))


def _path(text: Any) -> Path:
    found = _PLACEHOLDER.fullmatch(text) if isinstance(text, str) else None
    return tuple(found[1].split(".")) if found else ()


def common_start(left: str, right: str) -> str:
    """Return the text that two texts begin with."""
    pairs = enumerate(zip(left, right, strict=False))
    return left[: next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))]
