"""Import parsers of vLLM and SGLang without PyTorch, CUDA kernels and their other dependencies.

A stand-in module has every attribute. Its attributes serve as base classes, annotations and
decorators. Parsers import such modules and do not use them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["bare_package", "import_with_stand_ins"]


class _Anything:
    """A stand-in of a class, a function or a constant."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> _Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name)

    def __or__(self, other: Any) -> _Anything:
        return self

    __ror__ = __getitem__ = __or__

    def __iter__(self) -> Any:
        return iter(())

    def __mro_entries__(self, bases: Any) -> tuple[()]:
        return ()

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        decorated = len(arguments) == 1 and not keywords and callable(arguments[0])
        return arguments[0] if decorated else self

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # noqa: PLC0415 — in the judges' environment only

        return core_schema.any_schema()


class _Module(types.ModuleType):
    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> _Anything:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        value = _Anything(name)
        setattr(self, name, value)
        return value


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: Iterable[str]) -> None:
        self.names = set(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if any(name == known or name.startswith(f"{known}.") for known in self.names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def bare_package(name: str, folder: Path) -> None:
    """Register a package without running its ``__init__``, which would start the engine."""
    package = types.ModuleType(name)
    package.__path__ = [str(folder)]
    sys.modules[name] = package


def import_with_stand_ins(package: str, names: Iterable[str], load: Callable[[], Any]) -> Any:
    """Return what ``load`` returns, with stand-ins for all modules that are not installed.

    Args:
        package: The package that is imported. Its modules are forgotten before a new attempt.
        names: Modules that are stand-ins from the beginning.
        load: Imports modules.
    """
    finder = _Finder(names)
    sys.meta_path.insert(0, finder)
    kept = {name for name in sys.modules if name.startswith(f"{package}.")}
    while True:
        try:
            return load()
        except ModuleNotFoundError as error:
            missing = str(error.name)
            if missing in finder.names or missing.split(".")[0] == package:
                raise
            finder.names.add(missing)
            for name in [n for n in sys.modules if n.startswith(f"{package}.")]:
                if name not in kept:
                    del sys.modules[name]
