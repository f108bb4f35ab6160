"""Signatures that list the options in place of ``**options``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from .generation import OptionModel


def list_options(
    function: Callable[..., Any],
    arguments: Any,
    *models: type[OptionModel],
    types: Mapping[str, Any] | None = None,
) -> None:
    """Give a function a signature that lists its options.

    ``inspect.signature`` and ``help`` read ``__signature__``. The defaults are those of the models;
    the options of an engine replace them.

    Args:
        function: The function; its last parameter is ``**options``.
        arguments: The typed dict of the options.
        models: The models that check the options.
        types: The types that only type checkers know by their names.
    """
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[:-1]
    fields = {
        field.alias or name: field for model in models for name, field in model.model_fields.items()
    }
    for name, hint in get_type_hints(arguments, localns=dict(types or {})).items():
        field = fields.get(name)
        # An argument of requests that is no option: `logprob_vectors` is a flag, the others are
        # optional.
        default = False if hint is bool else None
        if field is not None:
            default = field.get_default(call_default_factory=True)
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint
            )
        )
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
