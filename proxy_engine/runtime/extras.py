"""Packages of optional extras, imported when they are first needed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from ..errors import MissingExtraError

Extra: TypeAlias = Literal[
    "vision",
    "draft-heads",
    "audio",
    "msgspec",
    "notebook",
    "server",
    "openai",
    "langchain",
    "mcp",
    "pydantic-ai",
    "dspy",
    "smolagents",
    "ray",
    "frames",
    "remote",
    "completion",
]

_PACKAGES: dict[Extra, str] = {
    "vision": "mlx_vlm",
    "draft-heads": "mlx_vlm",
    "audio": "mlx_audio",
    "msgspec": "msgspec",
    "notebook": "IPython",
    "server": "fastapi",
    "openai": "openai",
    "langchain": "langchain_openai",
    "mcp": "mcp",
    "pydantic-ai": "pydantic_ai",
    "dspy": "dspy",
    "smolagents": "smolagents",
    "ray": "ray",
    "frames": "narwhals",
    "remote": "fsspec",
    "completion": "argcomplete",
}


def is_installed(extra: Extra) -> bool:
    """Whether the package of an extra is installed. Imports nothing."""
    return importlib.util.find_spec(_PACKAGES[extra]) is not None


def import_extra(extra: Extra, module: str, *, purpose: str) -> Any:
    """Import a module of an extra's package, or of a package that it requires.

    Args:
        extra: The extra.
        module: The module's full name.
        purpose: What needs it, the subject of the error's message.

    Raises:
        MissingExtraError: The extra is not installed, or is too old.
    """
    with requires_extra(extra, purpose=purpose):
        return importlib.import_module(module)


@contextmanager
def requires_extra(extra: Extra, *, purpose: str) -> Iterator[None]:
    """Convert the ``ImportError`` of an extra's packages, for modules that import them at the top.

    Args:
        extra: The extra.
        purpose: What needs it, the subject of the error's message.

    Raises:
        MissingExtraError: An import in the block fails: the package is missing or too old.
    """
    try:
        if not is_installed(extra):
            raise ImportError(_PACKAGES[extra])
        yield
    except ImportError as error:
        package = _PACKAGES[extra].replace("_", "-")
        raise MissingExtraError(f"{purpose} requires {package}", extra=extra) from error
