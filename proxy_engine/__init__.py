"""Structured generation on Apple MLX: output that is guaranteed to match its schema.

``__init__.pyi`` lists the public names. Importing this package loads neither mlx nor transformers;
the first use of a name imports its module.
"""

import importlib
import sys
import warnings

import lazy_loader

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_RENAMED = {"DraftFirstOptions": "FreeformFirstOptions"}


def __getattr__(name: str) -> object:
    """Import a public name.

    Raises:
        AttributeError: There is no such name.
        ImportError: It is a former name, which an ``AttributeError`` could not explain in
            ``from proxy_engine import …``.
    """
    if name in _RENAMED:
        raise ImportError(f"{name} is named {_RENAMED[name]} now", name=__name__)
    return _attribute(name)


if "ipykernel" in sys.modules:
    # mlx-lm imports it. It warns in notebooks without ipywidgets, where bars are texts.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")
        importlib.import_module("tqdm.auto")
