"""Derive models and command line flags from the options of a request.

::

    @with_options("max_tokens", "temperature", stop={"max_length": 4})
    class ChatRequest(RequestModel):
        messages: list[Message]

    body = ChatRequest.model_validate({"messages": [], "temperature": 0.5})
    given_options(body)  # {"temperature": 0.5}
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, cast, get_args, get_origin

import pydantic
from pydantic.fields import FieldInfo

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
    given: Any = fields
    derived = pydantic.create_model(
        model.__name__,
        __base__=model,
        __module__=model.__module__,
        __doc__=model.__doc__,
        **given,
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


def add_option_flags(parser: argparse._ActionsContainer, *names: str) -> None:
    """Add a flag for each of some options, such as ``--max-tokens N``.

    Numbers and options with named values have flags. A flag accepts the named values only.
    """
    for name in names:
        field = GenerationOptions.model_fields[name]
        kinds = (field.annotation, *get_args(field.annotation))
        texts = [text for kind in kinds if get_origin(kind) is Literal for text in get_args(kind)]
        shape: dict[str, Any] = {"choices": texts}
        if not texts:
            is_integer = int in kinds
            shape = {"type": int if is_integer else float, "metavar": "N" if is_integer else "X"}
        # `argparse` formats help texts with `%`.
        about = (field.description or "").replace("`", "").replace("%", "%%")
        parser.add_argument(
            f"--{name.replace('_', '-')}", help=f"{about} (default: {field.default})", **shape
        )


def given_flags(arguments: argparse.Namespace, *names: str) -> OptionOverrides:
    """Return the options that flags of :func:`add_option_flags` have set.

    Raises:
        InvalidOptionError: A value is out of range.
    """
    given = {name: getattr(arguments, name) for name in names}
    given = {name: value for name, value in given.items() if value is not None}
    GenerationOptions(**given)
    return cast(OptionOverrides, given)
