"""Derive models and signatures from the options of a request.

::

    @with_options("max_tokens", "temperature", stop={"max_length": 4})
    class ChatRequest(RequestModel):
        messages: list[Message]

    body = ChatRequest.model_validate({"messages": [], "temperature": 0.5})
    given_options(body)  # {"temperature": 0.5}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias, TypeVar, cast, get_type_hints

import pydantic
from pydantic.fields import FieldInfo

from ..checks import OptionModel
from .generation import GenerationOptions
from .overrides import OptionOverrides

M = TypeVar("M", bound=pydantic.BaseModel)

OptionalField: TypeAlias = tuple[Any, FieldInfo]
"""A type and a field of it, as ``pydantic.create_model`` takes them."""

OPTION_NAMES: tuple[str, ...] = tuple(GenerationOptions.model_fields)
"""The names of all options."""


def with_options(*names: str, **changes: Mapping[str, Any]) -> Callable[[type[M]], type[M]]:
    """Add options to a pydantic model as optional fields; ``None`` stands for a missing one.

    The fields have the types, ranges and descriptions of ``GenerationOptions``. A field that means
    something else than the option is declared by the model itself.

    Args:
        names: The options; all of them without ``names`` and ``changes``.
        changes: More options, each with further arguments of ``pydantic.Field``: another
            description, or narrower constraints.
    """
    chosen = dict.fromkeys((*names, *changes)) or dict.fromkeys(OPTION_NAMES)

    def decorate(model: type[M]) -> type[M]:
        fields = {
            name: optional_field(GenerationOptions, name, changes.get(name, {})) for name in chosen
        }
        return with_fields(model, fields)

    return decorate


def with_fields(model: type[M], fields: Mapping[str, OptionalField]) -> type[M]:
    """Return a subclass with further fields, under the same name."""
    arguments: Any = fields
    derived = pydantic.create_model(
        model.__name__,
        __base__=model,
        __module__=model.__module__,
        __doc__=model.__doc__,
        **arguments,
    )
    derived.__qualname__ = model.__qualname__
    return derived


def optional_field(
    options: type[pydantic.BaseModel], name: str, changes: Mapping[str, Any] = MappingProxyType({})
) -> OptionalField:
    """Return a field with the type, range and description of an option, or ``None``.

    Args:
        options: The model of the option.
        name: Its name.
        changes: Further arguments of ``pydantic.Field``, and a ``description`` to replace its own.
    """
    option = options.model_fields[name]
    constraints = {key: value for key, value in changes.items() if key != "description"}
    metadata = (*option.metadata, pydantic.Field(**constraints))
    # As a value, since type checkers read `Annotated[…]` as a type.
    annotated: Any = Annotated
    kind = annotated[(option.annotation, *metadata)] | None
    about = changes.get("description", option.description)
    return kind, FieldInfo(default=None, description=about)


def given_options(model: pydantic.BaseModel) -> OptionOverrides:
    """Return the options among the fields of ``model``, except ``None``."""
    values = {name: getattr(model, name, None) for name in OPTION_NAMES}
    return cast(
        OptionOverrides, {name: value for name, value in values.items() if value is not None}
    )


def option_defaults(*models: type[OptionModel]) -> dict[str, Any]:
    """Return the defaults of the arguments of option models, by name."""
    return {
        field.alias or name: field.get_default(call_default_factory=True)
        for model in models
        for name, field in model.model_fields.items()
    }


ListedArguments: TypeAlias = tuple[Any, Mapping[str, Any]]
"""The typed dict of a function's options, and the defaults by name that are not ``None``."""


def list_options(function: Callable[..., Any], load: Callable[[], ListedArguments]) -> None:
    """Give a function a signature that lists its options, with the options of requests last.

    ``inspect.signature`` and ``help`` read ``__signature__``. The options of an engine replace the
    defaults.

    Args:
        function: The function; its last parameter is ``**options``.
        load: Returns the options; called when the signature is first read.
    """
    function.__signature__ = _OptionSignature(  # type: ignore[attr-defined]
        inspect.signature(function), load
    )


class _OptionSignature(inspect.Signature):
    """A signature whose last parameter is replaced by the options, once it is read."""

    def __init__(self, plain: inspect.Signature, load: Callable[[], ListedArguments]) -> None:
        super().__init__(list(plain.parameters.values()), return_annotation=plain.return_annotation)
        self._load = load

    @cached_property
    def parameters(self) -> MappingProxyType[str, inspect.Parameter]:
        arguments, defaults = self._load()
        hints = get_type_hints(arguments)
        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name),
                annotation=hints[name],
            )
            for name in sorted(hints, key=OptionOverrides.__annotations__.__contains__)
        ]
        own = list(super().parameters.values())[:-1]
        return MappingProxyType({parameter.name: parameter for parameter in [*own, *options]})

    def replace(self, **changes: Any) -> inspect.Signature:  # type: ignore[override]
        """Return a plain signature with changes."""
        plain = inspect.Signature(
            list(self.parameters.values()), return_annotation=self.return_annotation
        )
        return plain.replace(**changes)
