"""Structured generation on Apple MLX: output that is guaranteed to match its schema.

``__init__.pyi`` lists the public names. Importing this package loads neither mlx nor transformers;
the first use of a name imports its module.
"""

import importlib
import sys
import warnings

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

if "ipykernel" in sys.modules:
    # mlx-lm imports it. It warns in notebooks without ipywidgets, where bars are texts.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")
        importlib.import_module("tqdm.auto")
