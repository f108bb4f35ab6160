"""Signatures that list the options in place of ``**options``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from .generation import OptionModel
from .overrides import OptionOverrides


def option_defaults(*models: type[OptionModel]) -> dict[str, Any]:
    """Return the defaults of the arguments of option models, by name."""
    return {
        field.alias or name: field.get_default(call_default_factory=True)
        for model in models
        for name, field in model.model_fields.items()
    }


def list_options(
    function: Callable[..., Any],
    arguments: Any,
    defaults: Mapping[str, Any],
    types: Mapping[str, Any] | None = None,
) -> None:
    """Give a function a signature that lists its options; those of requests are last.

    ``inspect.signature`` and ``help`` read ``__signature__``. The options of an engine replace the
    defaults.

    Args:
        function: The function; its last parameter is ``**options``.
        arguments: The typed dict of the options.
        defaults: Defaults by name; ``None`` for other names.
        types: The types that only type checkers know by their names.
    """
    signature = inspect.signature(function)
    hints = get_type_hints(arguments, localns=dict(types or {}))
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=defaults.get(name),
            annotation=hints[name],
        )
        for name in sorted(hints, key=OptionOverrides.__annotations__.__contains__)
    ]
    parameters = [*list(signature.parameters.values())[:-1], *options]
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
