"""Names by which requests refer to models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

DEFAULT_MODEL = "default_model"
"""mlx-lm's name for the model, and for the draft model, that the server was started with."""

ANY_NAME = "*"
"""The alias that makes every unknown name a name of the default model."""

MAX_NAME_CHARACTERS = 1000
"""The length of names that are not those of models. Every chunk of an answer repeats the name."""


class Named(Protocol):
    """A model with a name, such as ``mlx-community/Qwen3-4B-4bit``."""

    @property
    def name(self) -> str:
        """The full name."""


NamedT = TypeVar("NamedT", bound=Named)


def models_by_short_name(
    name: str, models: Sequence[NamedT], *, components_only: bool = False
) -> list[NamedT]:
    """Return the models that a short name matches. Upper and lower case are equal.

    A full name takes precedence over a last component, and that over a part of a name:
    ``qwen3-4b`` matches ``a/Qwen3-4B`` only, even if there is ``b/Qwen3-4B-Base``.

    Args:
        name: The short name. An empty name matches nothing.
        models: Models with distinct names.
        components_only: Whether a part of a component matches nothing.
    """
    wanted = name.casefold()
    rules: tuple[Callable[[str], bool], ...] = (
        lambda full: full == wanted,
        lambda full: full.rpartition("/")[2] == wanted,
        lambda full: wanted in full,
    )
    if not wanted:
        return []
    for matches in rules[:-1] if components_only else rules:
        found = [model for model in models if matches(model.name.casefold())]
        if found:
            return found
    return []
