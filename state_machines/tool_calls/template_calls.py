"""The field ``tool_calls`` of a response template."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from state_machines.tool_calls.template_anchors import Anchor, refuse
from state_machines.tool_calls.template_contents import CONTENTS, Content

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
