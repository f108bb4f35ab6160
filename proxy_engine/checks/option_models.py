"""Models of options, which refuse unknown names and invalid values with one kind of error."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ValidationError

from samplers.parameters import ParameterModel

from ..errors import InvalidOptionError
from .problems import problems_in, suggestion
from .texts import short_repr

_NO_HINTS: Mapping[str, str] = MappingProxyType({})


class OptionModel(ParameterModel):
    """Base of option models: their constructors raise ``InvalidOptionError``."""

    name_hints: ClassVar[Mapping[str, str]] = _NO_HINTS
    """Hints for unknown names."""

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            # Before pydantic, which refuses names that are not Unicode without telling them.
            check_names(values, argument_names(type(self)), type(self).name_hints)
            super().__init__(**values)

        __init__.__pydantic_base_init__ = True

    @classmethod
    def _refusal(cls, error: ValidationError, values: Mapping[str, Any]) -> ValueError:
        problem = problems_in(error, values)[0]
        names = problem.location or ("options",)
        return InvalidOptionError(
            f"{'.'.join(map(str, names))} {problem.what}",
            option=str(names[0]),
            pointer=problem.pointer,
        )


@cache
def argument_names(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the names of the arguments of a model's constructor."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def check_names(
    options: Mapping[str, Any], known: Collection[str], hints: Mapping[str, str] = _NO_HINTS
) -> None:
    """Raise ``InvalidOptionError`` for a name that is not that of an option.

    Args:
        options: The options by name.
        known: The names of options.
        hints: Hints for names that are unknown and not misspelled.
    """
    for name in options:
        if name not in known:
            hint = hints.get(name) or suggestion(str(name), known)
            raise InvalidOptionError(
                f"there is no option {short_repr(name)}", option=str(name), hint=hint
            )
