"""Writes ``proxy_engine/options/overrides.py`` from the fields of ``GenerationOptions``.

python tests/support/option_overrides_source.py
"""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path
from typing import Any

from proxy_engine.options import overrides
from proxy_engine.options.generation import GenerationOptions

HEAD = '''"""The options of a request as keyword arguments. Generated from ``generation``: do not edit.

Regenerate it with ``python tests/support/option_overrides_source.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from state_machines.tool_calls import ToolFormat

from .generation import FreeformFirstOptions, PartOptions, ReasoningOptions, SpeculationOptions


class OptionOverrides(TypedDict, total=False):
    """The fields of :class:`~proxy_engine.GenerationOptions`, which describes them."""

'''


def source(hint: Any) -> str:
    """Return a type as an expression."""
    arguments = typing.get_args(hint)
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return " | ".join(map(source, arguments))
    if hint is types.NoneType or hint is Ellipsis:
        return "None" if hint is types.NoneType else "..."
    if typing.get_origin(hint) is typing.Literal:
        # As ruff formats it.
        return f"Literal[{', '.join(json.dumps(value) for value in arguments)}]"
    name = typing.get_origin(hint) or hint
    return name.__name__ + (f"[{', '.join(map(source, arguments))}]" if arguments else "")


def option_overrides_source() -> str:
    """Return the module's source."""
    hints = typing.get_type_hints(GenerationOptions)
    fields = (f"    {name}: {source(hints[name])}\n" for name in GenerationOptions.model_fields)
    return HEAD + "".join(fields)


if __name__ == "__main__":
    Path(overrides.__file__).write_text(option_overrides_source(), encoding="utf-8")
