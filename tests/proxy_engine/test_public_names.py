"""``__all__``, the exception tree, and what can be imported."""

from __future__ import annotations

import re

import pytest

import proxy_engine
from proxy_engine import errors


def test_every_public_name_can_be_imported() -> None:
    assert proxy_engine.__all__ == sorted(proxy_engine.__all__)
    for name in proxy_engine.__all__:
        assert getattr(proxy_engine, name) is not None
    assert set(proxy_engine.__all__) <= set(dir(proxy_engine))
    with pytest.raises(AttributeError):
        _ = proxy_engine.nothing_of_that_name


def test_documented_exception_tree_equals_the_classes() -> None:
    assert errors.__doc__ is not None
    drawn = set(re.findall(r"\b(\w+Error)\b", errors.__doc__)) - {
        "ProxyError",
        "SchemaError",
        "ValueError",
    }
    real = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.EngineError)
    }
    assert drawn == real
    assert real <= set(proxy_engine.__all__) | {"EngineError"}
