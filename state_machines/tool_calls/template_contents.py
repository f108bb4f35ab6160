"""Content types of response templates: the arguments of calls as a notation.

A content type names a parser of transformers. The notation has the layout of an example that the
parser reads, and excludes the values that the parser would read as others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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
