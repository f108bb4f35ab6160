"""Extension of griffe: the public API as the reference shows it."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc|obj):`(~?)([\w.]+)`")


_LITERAL = re.compile(r"^ *::$\n", re.MULTILINE)


class PublicApi(griffe.Extension):
    """Adapts docstrings, types and constructors for readers of the reference."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Replace roles by code. A literal block is indented in both notations."""
        if obj.docstring is not None:
            text = _LITERAL.sub("", obj.docstring.value)
            obj.docstring.value = _ROLE.sub(_code, text)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Replace a private name for ``Annotated[type, …]`` by the type."""
        name = str(attr.annotation)
        if name.startswith("_") and name in attr.module.members:
            alias = attr.module.members[name]
            value = getattr(alias, "value", None)
            if isinstance(value, griffe.ExprSubscript) and str(value.left) == "Annotated":
                attr.annotation = value.slice.elements[0]

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Remove constructors that take ``**values``: the attributes are the arguments."""
        constructor = cls.members.get("__init__")
        if isinstance(constructor, griffe.Function):
            kinds = [parameter.kind for parameter in constructor.parameters][1:]
            if kinds == [griffe.ParameterKind.var_keyword]:
                del cls.members["__init__"]


def _code(role: re.Match[str]) -> str:
    is_short, target = role.groups()
    return f"`{target.rpartition('.')[2] if is_short else target}`"
