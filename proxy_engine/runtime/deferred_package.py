"""mlx-lm's package as a namespace whose own code runs when a name in it is first used.

``mlx_lm/__init__`` imports transformers, which takes longer than loading a small model. The modules
of models and caches need neither.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from types import ModuleType
from typing import Any

_lock = threading.RLock()


def defer_mlx_lm() -> None:
    """Let ``mlx_lm`` execute its code at the first use of a name, unless it is imported already."""
    # As mlx-lm sets it: transformers is used for tokenizers only, and would miss PyTorch.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    with _lock:
        if "mlx_lm" in sys.modules:
            return
        specification = importlib.util.find_spec("mlx_lm")
        if specification is None or specification.loader is None:
            return
        package = importlib.util.module_from_spec(specification)
        package.__class__ = _Deferred
        sys.modules["mlx_lm"] = package


class _Deferred(ModuleType):
    """A package that has not been executed. Its submodules can be imported."""

    def __getattr__(self, name: str) -> Any:
        with _lock:
            specification = self.__spec__
            if type(self) is _Deferred and specification is not None and specification.loader:
                self.__class__ = ModuleType  # type: ignore[assignment]
                specification.loader.exec_module(self)
        return getattr(self, name)
